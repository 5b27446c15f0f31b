// 128-bit division, which the compiler writes out with carries: quotient and remainder of (hi, lo) by a divisor.
extern "C" __global__ void wide_division(const unsigned long long* in, unsigned long long* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned __int128 a = (unsigned __int128)in[3 * t] << 64 | in[3 * t + 1], d = in[3 * t + 2];
  const unsigned __int128 q = a / d, r = a % d;
  out[3 * t] = (unsigned long long)(q >> 64);
  out[3 * t + 1] = (unsigned long long)q;
  out[3 * t + 2] = (unsigned long long)r;
}

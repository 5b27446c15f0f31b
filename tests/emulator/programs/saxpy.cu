// y = a x + y over a grid-stride loop, vectors of four.
extern "C" __global__ void saxpy(float a, const float4* x, float4* y, int vectors) {
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < vectors; i += gridDim.x * blockDim.x) {
    const float4 p = x[i];
    float4 q = y[i];
    q.x = fmaf(a, p.x, q.x);
    q.y = fmaf(a, p.y, q.y);
    q.z = fmaf(a, p.z, q.z);
    q.w = fmaf(a, p.w, q.w);
    y[i] = q;
  }
}

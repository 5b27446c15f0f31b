// Textures and surfaces: an array turned by linear filtering, rows of linear memory, a volume, layers, a surface that a
// kernel writes and a texture reads, borders and normalized numbers.
#include <cmath>

#include "common.hpp"

__global__ void turn(float* out, cudaTextureObject_t t, int w, int h, float angle) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  const float u = x / float(w) - 0.5f, v = y / float(h) - 0.5f;
  out[y * w + x] = tex2D<float>(t, u * cosf(angle) - v * sinf(angle) + 0.5f, v * cosf(angle) + u * sinf(angle) + 0.5f);
}
__global__ void write(cudaSurfaceObject_t s, const float* in, int w) {
  const int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  surf2Dwrite(in[y * w + x], s, x * 4, y, cudaBoundaryModeTrap);
}
__global__ void fetch(int4* out, cudaTextureObject_t t) { out[threadIdx.x] = tex1Dfetch<int4>(t, threadIdx.x); }
__global__ void volume(float* out, cudaTextureObject_t t, cudaTextureObject_t layers) {
  const int x = threadIdx.x, y = threadIdx.y, z = threadIdx.z;
  out[(z * 8 + y) * 8 + x] = tex3D<float>(t, x + 0.5f, y + 0.5f, z + 0.5f) + tex2DLayered<float>(layers, x + 0.5f, y + 0.5f, z);
}
__global__ void bytes(float4* out, cudaTextureObject_t t) { out[threadIdx.x] = tex2D<float4>(t, threadIdx.x - 1 + 0.5f, 0.5f); }

cudaTextureObject_t texture(const cudaResourceDesc& r, cudaTextureAddressMode address, cudaTextureFilterMode filter,
                            cudaTextureReadMode read, bool normalized) {
  cudaTextureDesc d = {};
  d.addressMode[0] = d.addressMode[1] = d.addressMode[2] = address;
  d.filterMode = filter;
  d.readMode = read;
  d.normalizedCoords = normalized;
  d.borderColor[0] = d.borderColor[3] = 0.25f;
  cudaTextureObject_t t = 0;
  OK(cudaCreateTextureObject(&t, &r, &d, nullptr));
  return t;
}
cudaResourceDesc of_array(cudaArray_t a) {
  cudaResourceDesc r = {};
  r.resType = cudaResourceTypeArray;
  r.res.array.array = a;
  return r;
}
cudaArray_t solid(const std::vector<float>& data, unsigned flags) {
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t a;
  OK(cudaMalloc3DArray(&a, &format, make_cudaExtent(8, 8, 4), flags));
  cudaMemcpy3DParms copy = {};
  copy.srcPtr = make_cudaPitchedPtr(const_cast<float*>(data.data()), 8 * 4, 8, 8);
  copy.dstArray = a;
  copy.extent = make_cudaExtent(8, 8, 4);
  copy.kind = cudaMemcpyHostToDevice;
  OK(cudaMemcpy3D(&copy));
  return a;
}

int main() {
  const int w = 64, h = 32;
  const std::vector<float> in = some_floats(w * h);
  const cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
  cudaArray_t a;
  OK(cudaMallocArray(&a, &format, w, h, cudaArraySurfaceLoadStore));
  float *d = to_device(in), *out = on_device<float>(w * h);
  cudaSurfaceObject_t s;
  const cudaResourceDesc resource = of_array(a);
  OK(cudaCreateSurfaceObject(&s, &resource));
  write<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(s, d, w);
  std::vector<float> back(w * h);
  OK(cudaMemcpy2DFromArray(back.data(), w * 4, a, 0, 0, w * 4, h, cudaMemcpyDeviceToHost));
  EXPECT(back == in);
  const cudaTextureObject_t t = texture(resource, cudaAddressModeWrap, cudaFilterModeLinear, cudaReadModeElementType, true);
  turn<<<dim3(w / 16, h / 16), dim3(16, 16)>>>(out, t, w, h, 0.5f);
  const auto got = to_host(out, w * h);
  const auto at = [&](int x, int y) { return in[((y % h) + h) % h * w + ((x % w) + w) % w]; };
  for (int y = 0; y < h; ++y)
    for (int x = 0; x < w; ++x) {
      const double u = x / double(w) - 0.5, v = y / double(h) - 0.5, c = std::cos(0.5), n = std::sin(0.5);
      const double tx = (u * c - v * n + 0.5) * w - 0.5, ty = (v * c + u * n + 0.5) * h - 0.5;
      const int x0 = int(std::floor(tx)), y0 = int(std::floor(ty));
      const double fx = tx - x0, fy = ty - y0;
      const double want = (1 - fy) * ((1 - fx) * at(x0, y0) + fx * at(x0 + 1, y0)) + fy * ((1 - fx) * at(x0, y0 + 1) + fx * at(x0 + 1, y0 + 1));
      EXPECT(std::fabs(got[y * w + x] - want) < 0.01);  // filters have 8 bits of weight
    }

  const std::vector<int> numbers = some_ints(128, 1000);
  cudaResourceDesc linear = {};
  linear.resType = cudaResourceTypeLinear;
  linear.res.linear.devPtr = to_device(numbers);
  linear.res.linear.desc = cudaCreateChannelDesc<int4>();
  linear.res.linear.sizeInBytes = 512;
  int4* fours = on_device<int4>(32);
  fetch<<<1, 32>>>(fours, texture(linear, cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false));
  const auto rows = to_host(fours, 32);
  for (int i = 0; i < 32; ++i) EXPECT(rows[i].x == numbers[4 * i] && rows[i].w == numbers[4 * i + 3]);

  const std::vector<float> block = some_floats(256, 3);
  const cudaTextureObject_t deep = texture(of_array(solid(block, 0)), cudaAddressModeClamp, cudaFilterModePoint, cudaReadModeElementType, false);
  const cudaTextureObject_t layered = texture(of_array(solid(block, cudaArrayLayered)), cudaAddressModeClamp, cudaFilterModeLinear, cudaReadModeElementType, false);
  volume<<<1, dim3(8, 8, 4)>>>(out, deep, layered);
  const auto cube = to_host(out, 256);
  for (int i = 0; i < 256; ++i) EXPECT(cube[i] == 2 * block[i]);

  const uchar4 pixels[2] = {{255, 0, 51, 255}, {0, 102, 0, 0}};
  uchar4* pitched;
  size_t pitch;
  OK(cudaMallocPitch(&pitched, &pitch, sizeof pixels, 1));
  OK(cudaMemcpy(pitched, pixels, sizeof pixels, cudaMemcpyHostToDevice));
  cudaResourceDesc plane = {};
  plane.resType = cudaResourceTypePitch2D;
  plane.res.pitch2D = {pitched, cudaCreateChannelDesc<uchar4>(), 2, 1, pitch};
  float4* colours = on_device<float4>(4);
  bytes<<<1, 4>>>(colours, texture(plane, cudaAddressModeBorder, cudaFilterModePoint, cudaReadModeNormalizedFloat, false));
  const auto c = to_host(colours, 4);
  EXPECT(c[0].x == 0.25f && c[0].w == 0.25f && c[1].x == 1 && std::fabs(c[1].z - 0.2f) < 1e-6f);
  EXPECT(std::fabs(c[2].y - 0.4f) < 1e-6f && c[3].x == 0.25f);
  OK(cudaDestroyTextureObject(t));
  OK(cudaDestroySurfaceObject(s));
  OK(cudaFreeArray(a));
  return right();
}

// Objects with virtual functions on the kernel's heap, in lists that lanes build to different lengths.
struct Shape {
  Shape* next;
  __device__ explicit Shape(Shape* n) : next(n) {}
  __device__ virtual float area() const = 0;
  __device__ virtual ~Shape() {}
};
struct Square : Shape {
  float side;
  __device__ Square(Shape* n, float s) : Shape(n), side(s) {}
  __device__ float area() const override { return side * side; }
};
struct Box : Shape {
  float* sides;
  __device__ Box(Shape* n, float a, float b) : Shape(n), sides(new float[2]) {
    sides[0] = a;
    sides[1] = b;
  }
  __device__ ~Box() override { delete[] sides; }
  __device__ float area() const override { return sides[0] * sides[1]; }
};

extern "C" __global__ void heap_shapes(float* out) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Shape* list = nullptr;
  for (int i = 0; i < t % 5; ++i) {
    if ((t + i) % 2 == 0)
      list = new Square(list, (float)i);
    else
      list = new Box(list, (float)t, (float)i);
  }
  float sum = 0;
  while (list != nullptr) {
    Shape* const next = list->next;
    sum += list->area();
    delete list;
    list = next;
  }
  out[t] = sum;
}

// Lists of shapes on the device's heap: virtual functions, which lanes of a warp call through tables of their own, new
// and delete. Each thread makes a list of mixed shapes, adds up their areas, drops some of them and adds up again.
struct Shape {
  Shape* next = nullptr;
  __device__ virtual ~Shape() {}
  __device__ virtual int area() const = 0;
  __device__ virtual int corners() const = 0;
};

struct Square : Shape {
  int side;
  __device__ explicit Square(int s) : side(s) {}
  __device__ int area() const override;
  __device__ int corners() const override { return 4; }
};
struct Rectangle : Shape {
  int width, height;
  __device__ Rectangle(int w, int h) : width(w), height(h) {}
  __device__ int area() const override;
  __device__ int corners() const override { return 4; }
};
/// Made of squares and rectangles, whose functions it calls in turn.
struct Pile : Shape {
  Shape* parts[3];
  __device__ explicit Pile(int n) {
    parts[0] = new Square(n);
    parts[1] = new Rectangle(n, 2);
    parts[2] = n > 2 ? static_cast<Shape*>(new Pile(n - 2)) : new Square(1);
  }
  __device__ ~Pile() override {
    for (Shape* p : parts) delete p;
  }
  __device__ int area() const override;
  __device__ int corners() const override;
};

// Locals that are indexed, so that every frame has memory of its own.
__device__ __noinline__ int sum_to(int n, int step) {
  int rows[24];
  for (int i = 0; i < 24; ++i) rows[i] = i < n ? step : 0;
  int sum = 0;
  for (int i = 0; i < 24; ++i) sum += rows[(i * 5 + n) % 24];
  return sum;
}
__device__ __noinline__ int Square::area() const {
  return sum_to(side, side);
}
__device__ __noinline__ int Rectangle::area() const {
  int sum = 0;
  for (int i = 0; i < height; ++i) sum += sum_to(width, 1);
  return sum;
}
__device__ __noinline__ int Pile::area() const {
  int sum = 0;
  for (const Shape* p : parts) sum += p->area();
  return sum;
}
__device__ __noinline__ int Pile::corners() const {
  int sum = 0;
  for (const Shape* p : parts) sum += p->corners();
  return sum;
}

__device__ __noinline__ Shape* make(int kind, int n) {
  if (kind == 0) return new Square(n);
  if (kind == 1) return new Rectangle(n, n / 2 + 1);
  return new Pile(n);
}

extern "C" __global__ void shapes(const int* seeds, int* areas, int* corners, int rounds) {
  const int t = blockIdx.x * blockDim.x + threadIdx.x;
  Shape* list = nullptr;
  unsigned state = static_cast<unsigned>(seeds[t]);
  const int count = 3 + static_cast<int>(state % 14);
  for (int i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;
    Shape* s = make(static_cast<int>(state >> 16) % 3, 1 + static_cast<int>(state >> 20) % 7);
    s->next = list;
    list = s;
  }
  int area = 0, corner = 0;
  // Long enough without a write for lanes to be taken for waiting, and others to get a turn within these calls.
  for (int i = 0; i < rounds; ++i)
    for (const Shape* s = list; s != nullptr; s = s->next) area += s->area() ^ i;
  for (Shape** at = &list; *at != nullptr;) {
    Shape* s = *at;
    if (s->corners() == 4 && s->area() % 2 == 0) {
      *at = s->next;
      delete s;
    } else {
      corner += s->corners();
      at = &s->next;
    }
  }
  for (const Shape* s = list; s != nullptr; s = s->next) area += 1000 * s->area();
  while (list != nullptr) {
    Shape* s = list;
    list = s->next;
    delete s;
  }
  areas[t] = area;
  corners[t] = corner;
}

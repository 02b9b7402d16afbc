// Exceptions through several frames, virtual calls, destructors on the way.
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

struct Shape {
  virtual ~Shape() = default;
  virtual unsigned area(unsigned scale) const = 0;
};

struct Square : Shape {
  unsigned area(unsigned scale) const override {
    if (scale == 4)
      throw std::runtime_error("no squares of four");
    return scale * scale;
  }
};

struct Strip : Shape {
  unsigned area(unsigned scale) const override {
    if (scale % 3 == 2)
      throw scale;
    return scale;
  }
};

struct Guard {
  unsigned &count;
  ~Guard() { count++; }
};

__attribute__((noinline)) static unsigned measure(const std::vector<std::unique_ptr<Shape>> &shapes,
                                                  unsigned scale, unsigned &left) {
  Guard guard{left};
  unsigned sum = 0;
  for (const auto &shape : shapes) {
    try {
      sum += shape->area(scale);
    } catch (unsigned number) {
      sum += 100 + number;
      if (number == 8)
        throw std::string("eight");
    }
  }
  return sum;
}

__attribute__((noinline)) static void complain(unsigned scale) {
  if (scale == 7)
    throw std::string("seven");
  if (scale & 1)
    throw scale;
}

__attribute__((noinline)) static unsigned catches(unsigned scale) {
  try {
    complain(scale == 7 ? 9 : scale);
  } catch (unsigned number) {
    return number;
  }
  return 0;
}

// Has a landing, and is gone when the one it hands over to lands.
__attribute__((noinline)) static unsigned hands_over(unsigned scale, unsigned &left) {
  {
    Guard guard{left};
    complain(scale & ~1u ? scale & 6u : 0);
  }
  return catches(scale);
}

// Throws whatever it is called with, so what calls it returns from a handler only.
__attribute__((noinline)) static unsigned throws(unsigned scale) {
  if (scale > 4)
    throw scale;
  return throws(scale + 2) + 1;
}

__attribute__((noinline)) static unsigned returns_from_a_handler(unsigned scale) {
  try {
    return throws(scale);
  } catch (unsigned number) {
    return number;
  }
}

int main() {
  std::vector<std::unique_ptr<Shape>> shapes;
  for (int i = 0; i < 3; i++) {
    shapes.push_back(std::make_unique<Square>());
    shapes.push_back(std::make_unique<Strip>());
  }
  unsigned sum = 0, left = 0;
  for (unsigned scale = 0; scale < 10; scale++) {
    try {
      sum += hands_over(scale, left);
      sum += returns_from_a_handler(scale);
      sum += measure(shapes, scale, left);
    } catch (const std::exception &error) {
      std::printf("%s\n", error.what());
    } catch (const std::string &text) {
      sum += text.size();
    }
  }
  std::printf("%u %u\n", sum, left);
  return 0;
}

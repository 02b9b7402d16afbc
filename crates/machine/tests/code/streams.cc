// Streams and exceptions, for executables that hold the whole of both libraries.
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

struct Guard {
  unsigned &count;
  ~Guard() { count++; }
};

__attribute__((noinline)) static unsigned descend(unsigned depth, unsigned &left) {
  Guard guard{left};
  if (depth == 0)
    throw std::runtime_error("at the bottom");
  if (depth == 9)
    throw depth;
  return descend(depth - 1, left) + 1;
}

__attribute__((noinline)) static unsigned catches_numbers(unsigned depth, unsigned &left) {
  try {
    return descend(depth, left);
  } catch (unsigned number) {
    return number;
  }
}

int main() {
  unsigned left = 0;
  for (unsigned i = 0; i < 3; i++) {
    try {
      std::cout << catches_numbers(i == 1 ? 9 : i * 2, left) << '\n';
    } catch (const std::exception &error) {
      std::cout << error.what() << ' ' << left << std::endl;
    }
  }
  std::string text;
  std::vector<unsigned> numbers;
  for (unsigned i = 0; i < 10; i++) {
    numbers.push_back(i);
    text += std::to_string(i);
  }
  std::cout << text << ' ' << numbers.size() << '\n';
  try {
    numbers.at(99) = 1;
  } catch (const std::out_of_range &) {
    std::cout << "out of range\n";
  }
  return 0;
}

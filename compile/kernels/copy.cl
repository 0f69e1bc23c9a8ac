// Bytes from one place to another, as many at a time as a register holds.

static inline void copy_bytes(__global uchar *to, __global const uchar *from, const int count) {
  struct __attribute__((packed)) Line {
    ulong8 v;
  };
  int i = 0;
  for (; i + 64 <= count; i += 64)
    ((__global struct Line *)(to + i))->v = ((__global const struct Line *)(from + i))->v;
  for (; i < count; i++) to[i] = from[i];
}

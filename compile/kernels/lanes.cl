// Sixteen channels of one pixel, of which `lanes` exist; OUT_CHANNEL elements lie between two.

INLINE float16 load_lanes(__global const float *from, const int lanes) {
#if OUT_CHANNEL == 1
  if (lanes >= 16) return load16(0, from);
#endif
  union {
    float16 vector;
    float values[16];
  } v;
#pragma unroll
  for (int i = 0; i < 16; i++) v.values[i] = i < lanes ? from[i * OUT_CHANNEL] : 0.0f;
  return v.vector;
}

INLINE void store_lanes(const float16 vector, __global float *to, const int lanes) {
#if OUT_CHANNEL == 1
  if (lanes >= 16) {
    store16(vector, 0, to);
    return;
  }
#endif
  union {
    float16 vector;
    float values[16];
  } v;
  v.vector = vector;
#pragma unroll
  for (int i = 0; i < 16; i++)
    if (i < lanes) to[i * OUT_CHANNEL] = v.values[i];
}

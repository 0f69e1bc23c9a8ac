// Sixteen channels of one pixel, of which `lanes` exist; OUT_CHANNEL elements lie between two.

#define INLINE static inline __attribute__((always_inline))

static inline float16 load_lanes(__global const float *restrict from, const int lanes) {
#if OUT_CHANNEL == 1
  if (lanes >= 16) return vload16(0, from);
#endif
  float v[16];
#pragma unroll
  for (int i = 0; i < 16; i++) v[i] = i < lanes ? from[i * OUT_CHANNEL] : 0.0f;
  return vload16(0, v);
}

static inline void store_lanes(const float16 v, __global float *restrict to, const int lanes) {
#if OUT_CHANNEL == 1
  if (lanes >= 16) {
    vstore16(v, 0, to);
    return;
  }
#endif
  float values[16];
  vstore16(v, 0, values);
#pragma unroll
  for (int i = 0; i < 16; i++)
    if (i < lanes) to[i * OUT_CHANNEL] = values[i];
}

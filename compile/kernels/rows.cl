// Softmax or normalisation of each row of LENGTH neighbouring elements. A work-item takes SPAN
// rows. Elements beyond whole vectors of 16 are taken one by one.

static inline float sum16(const float16 v) {
  const float8 a = v.lo + v.hi;
  const float4 b = a.lo + a.hi;
  return (b.x + b.y) + (b.z + b.w);
}

static inline float max16(const float16 v) {
  const float8 a = max(v.lo, v.hi);
  const float4 b = max(a.lo, a.hi);
  return max(max(b.x, b.y), max(b.z, b.w));
}

#if SOFTMAX
static void row_of(__global float *restrict out, __global const float *restrict in) {
  float16 most16 = (float16)(-INFINITY);
  for (int i = 0; i < LENGTH / 16; i++) most16 = max(most16, load16(i, in));
  float most = max16(most16);
  for (int i = LENGTH / 16 * 16; i < LENGTH; i++) most = max(most, in[i]);
  float16 sum = (float16)(0.0f);
  for (int i = 0; i < LENGTH / 16; i++) {
    const float16 e = exponential(load16(i, in) - most);
    sum += e;
    store16(e, i, out);
  }
  float total = sum16(sum);
  for (int i = LENGTH / 16 * 16; i < LENGTH; i++) {
    out[i] = exp(in[i] - most);
    total += out[i];
  }
  const float scale = 1.0f / total;
  for (int i = 0; i < LENGTH / 16; i++) store16(load16(i, out) * scale, i, out);
  for (int i = LENGTH / 16 * 16; i < LENGTH; i++) out[i] *= scale;
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in) {
  const int first = get_global_id(0) * SPAN;
  for (int row = first; row < min(first + SPAN, ROWS); row++)
    row_of(out + row * LENGTH, in + row * LENGTH);
}
#else
__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in PARAMETERS) {
  const int first = get_global_id(0) * SPAN;
  for (int row = first; row < min(first + SPAN, ROWS); row++) {
    const int start = row * LENGTH;
    float16 sum = (float16)(0.0f);
    for (int i = 0; i < LENGTH / 16; i++) sum += load16(i, in + start);
    const float mean = sum16(sum) * (1.0f / LENGTH);
    float16 squares = (float16)(0.0f);
    for (int i = 0; i < LENGTH / 16; i++) {
      const float16 d = load16(i, in + start) - mean;
      squares = fma(d, d, squares);
    }
    const float scale = 1.0f / sqrt(sum16(squares) * (1.0f / LENGTH) + EPSILON);
    for (int block = 0; block < LENGTH / 16; block++) {
      const int at = start + block * 16;
      float16 v = (load16(0, in + at) - mean) * scale;
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load16(0, array + at)
      EPILOGUE
      store16(v, 0, out + at);
    }
  }
}
#endif

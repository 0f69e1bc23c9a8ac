// Steps applied to every element of a tensor, 16 at a time. A work-item takes SPAN vectors.

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in PARAMETERS) {
  const int first = get_global_id(0) * SPAN;
  for (int i = first; i < min(first + SPAN, VECTORS); i++) {
    const int lanes = ELEMENTS - i * 16;
    float16 v = load_lanes(in + i * 16, lanes);
#define LOAD_CHANNEL(array) load16(CHANNEL_BLOCK(i), array)
#define LOAD_TENSOR(array) load_lanes(array + i * 16, lanes)
    EPILOGUE
    store_lanes(v, out + i * 16, lanes);
  }
}

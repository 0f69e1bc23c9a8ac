// The gradient before a rectifier, out (M, 16 BLOCKS): `grad` where y is positive; and sums
// (CHUNKS, 16 BLOCKS) of it over each chunk of SPAN rows.
KERNEL void NAME(OUT out, OUT sums, IN grad, IN y) {
  const int chunk = get_global_id(0);
  const int last = min(chunk * SPAN + SPAN, M);
  float16 sum[BLOCKS];
#pragma unroll
  for (int b = 0; b < BLOCKS; b++) sum[b] = (float16)(0.0f);
  for (int m = chunk * SPAN; m < last; m++) {
#pragma unroll
    for (int b = 0; b < BLOCKS; b++) {
      const int at = m * BLOCKS + b;
      const float16 g = vload16(at, y) > 0.0f ? vload16(at, grad) : (float16)(0.0f);
      sum[b] += g;
      vstore16(g, at, out);
    }
  }
#pragma unroll
  for (int b = 0; b < BLOCKS; b++) vstore16(sum[b], chunk * BLOCKS + b, sums);
}

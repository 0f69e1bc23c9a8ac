// out (M, N) = a (M, K) b, with b packed as (N / LANES, K, LANES). A work-item computes SPAN rows
// of LANES columns; a tile is ROWS x LANES, all of it in registers. The last tile of a span
// overlaps the one before it.
INLINE void tile(OUT out, IN a, IN b EXTRA_PARAMETERS, const int row, const int column) {
  float16 sum[ROWS][BLOCKS];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int v = 0; v < BLOCKS; v++) sum[r][v] = (float16)(0.0f);
  a += row * K;
#pragma unroll 2
  for (int k = 0; k < K; k++) {
    float16 w[BLOCKS];
#pragma unroll
    for (int v = 0; v < BLOCKS; v++) w[v] = vload16(v, b + k * LANES);
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const float16 x = (float16)(a[r * K + k]);
#pragma unroll
      for (int v = 0; v < BLOCKS; v++) sum[r][v] = fma(x, w[v], sum[r][v]);
    }
  }
#pragma unroll
  for (int v = 0; v < BLOCKS; v++) {
#if BIAS
    const float16 start = vload16(v, bias + column);
#endif
#pragma unroll
    for (int r = 0; r < ROWS; r++) {
      const int at = (row + r) * N + column + v * 16;
      float16 y = sum[r][v];
#if BIAS
      y += start;
#endif
#if RESIDUAL
      y += vload16(0, residual + at);
#endif
#if RELU
      y = y > 0.0f ? y : (float16)(0.0f);
#endif
      vstore16(y, 0, out + at);
    }
  }
}

KERNEL void NAME(OUT out, IN a, IN b EXTRA_PARAMETERS) {
  const int column = get_global_id(0) * LANES, first = get_global_id(1) * SPAN;
  const int last = min(first + SPAN, M);
  b += column * K;
  for (int row = first; row < last; row += ROWS)
    tile(out, a, b EXTRA_ARGUMENTS, min(row, last - ROWS), column);
}

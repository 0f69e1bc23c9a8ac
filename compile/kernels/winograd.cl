// Winograd's minimal filtering F(4x4, 3x3): 4 x 4 outputs of a 3 x 3 convolution from 6 x 6 inputs
// by 36 products instead of 144. A work-item takes TILES such squares of one row of squares through
// three stages: inputs spread out, a product of matrices for each of the 36 places, outputs
// gathered. Maps in and out are blocked.

// One dimension of B'd, in place.
INLINE void spread(float16 d[6]) {
  const float16 a = fma(d[2], (float16)(-4.0f), d[4]), b = fma(d[1], (float16)(-4.0f), d[3]);
  const float16 e = d[4] - d[2], f = 2.0f * (d[3] - d[1]);
  d[0] = fma(d[0], (float16)(4.0f), fma(d[2], (float16)(-5.0f), d[4]));
  d[5] = fma(d[1], (float16)(4.0f), fma(d[3], (float16)(-5.0f), d[5]));
  d[1] = a + b;
  d[2] = a - b;
  d[3] = e + f;
  d[4] = e - f;
}

// One dimension of A'm: the first four of `m`.
INLINE void gather(float16 m[6]) {
  const float16 a = m[1] + m[2], b = m[1] - m[2], e = m[3] + m[4], f = m[3] - m[4];
  m[0] = m[0] + a + e;
  m[1] = fma(f, (float16)(2.0f), b);
  m[2] = fma(e, (float16)(4.0f), a);
  m[3] = fma(f, (float16)(8.0f), b) + m[5];
}

// The 36 places of one square and 16 channels; a place is TILES * IN_BLOCKS vectors after the last.
INLINE void spread_square(float16 *restrict out, __global const float *restrict in, const int row,
                          const int column, const int checked) {
  float16 places[6][6];
#pragma unroll 1
  for (int j = 0; j < 6; j++) {
    float16 d[6];
#pragma unroll
    for (int i = 0; i < 6; i++) {
      const int y = row + i, x = column + j;
      const int outside = checked && (y < 0 || y >= IN_HEIGHT || x < 0 || x >= IN_WIDTH);
      d[i] = outside ? (float16)(0.0f) : load16(y * IN_WIDTH + x, in);
    }
    spread(d);
#pragma unroll
    for (int i = 0; i < 6; i++) places[i][j] = d[i];
  }
#pragma unroll 1
  for (int i = 0; i < 6; i++) {
    float16 d[6];
#pragma unroll
    for (int j = 0; j < 6; j++) d[j] = places[i][j];
    spread(d);
#pragma unroll
    for (int j = 0; j < 6; j++) out[(i * 6 + j) * TILES * IN_BLOCKS] = d[j];
  }
}

// One place: BLOCKS x 16 channels of all squares, PIXELS of them at a time; the last may overlap
// those before.
INLINE void multiply(float16 *restrict out, const float *restrict in,
                     __global const float *restrict weights) {
#pragma unroll 1
  for (int t = 0; t < TILES; t += PIXELS) {
    const int first = min(t, TILES - PIXELS);
    const float *restrict at = in + first * IN_BLOCKS * 16;
    float16 sum[BLOCKS][PIXELS];
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int p = 0; p < PIXELS; p++) sum[b][p] = (float16)(0.0f);
#pragma unroll 1
    for (int c = 0; c < IN_CHANNELS; c++) {
      float16 w[BLOCKS];
#pragma unroll
      for (int b = 0; b < BLOCKS; b++) w[b] = load16(c, weights + b * 36 * IN_CHANNELS * 16);
#pragma unroll
      for (int p = 0; p < PIXELS; p++) {
        const float16 a = (float16)(at[p * IN_BLOCKS * 16 + c]);
#pragma unroll
        for (int b = 0; b < BLOCKS; b++) sum[b][p] = fma(a, w[b], sum[b][p]);
      }
    }
#pragma unroll
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll
      for (int p = 0; p < PIXELS; p++) out[b * 36 * TILES + first + p] = sum[b][p];
  }
}

// The outputs of one square and 16 channels, of whose 36 places each is TILES vectors after the last.
INLINE void gather_square(__global float *restrict out, const float16 *restrict in PARAMETERS,
                          const int base, const int block, const int row, const int column) {
  float16 places[4][6];
#pragma unroll 1
  for (int j = 0; j < 6; j++) {
    float16 m[6];
#pragma unroll
    for (int i = 0; i < 6; i++) m[i] = in[(i * 6 + j) * TILES];
    gather(m);
#pragma unroll
    for (int i = 0; i < 4; i++) places[i][j] = m[i];
  }
#pragma unroll 1
  for (int i = 0; i < min(4, OUT_HEIGHT - row); i++) {
    float16 m[6];
#pragma unroll
    for (int j = 0; j < 6; j++) m[j] = places[i][j];
    gather(m);
#pragma unroll
    for (int j = 0; j < 4; j++) {
      if (column + j >= OUT_WIDTH) continue;
      const int at = base + ((row + i) * OUT_WIDTH + column + j) * 16;
      float16 v = m[j];
#define LOAD_CHANNEL(array) load16(block, array)
#define LOAD_TENSOR(array) load16(0, array + at)
      EPILOGUE
      store16(v, 0, out + at);
    }
  }
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(
    __global float *restrict out, __global const float *restrict in,
    __global const float *restrict weights PARAMETERS) {
  const int row = get_global_id(1) * 4, batch = get_global_id(2);
  const int first = get_global_id(0) * TILES * 4;
  in += IN_OFFSET + batch * IN_BATCH;

  float16 inputs[36 * TILES * IN_BLOCKS], outputs[BLOCKS * 36 * TILES];
#pragma unroll 1
  for (int b = 0; b < IN_BLOCKS; b++)
#pragma unroll 1
    for (int t = 0; t < TILES; t++) {
      const int y = row - PAD_TOP, x = first + t * 4 - PAD_LEFT;
      if (y >= 0 && y + 6 <= IN_HEIGHT && x >= 0 && x + 6 <= IN_WIDTH)
        spread_square(inputs + t * IN_BLOCKS + b, in + b * IN_BLOCK, y, x, 0);
      else
        spread_square(inputs + t * IN_BLOCKS + b, in + b * IN_BLOCK, y, x, 1);
    }
#pragma unroll 1
  for (int block = 0; block < OUT_BLOCKS; block += BLOCKS) {
#pragma unroll 1
    for (int place = 0; place < 36; place++)
      multiply(outputs + place * TILES, (const float *)(inputs + place * TILES * IN_BLOCKS),
               weights + (block * 36 + place) * IN_CHANNELS * 16);
#pragma unroll 1
    for (int b = 0; b < BLOCKS; b++)
#pragma unroll 1
      for (int t = 0; t < TILES; t++)
        gather_square(out, outputs + b * 36 * TILES + t ARGUMENTS,
                      (batch * OUT_BLOCKS + block + b) * OUT_BLOCK, block + b, row, first + t * 4);
  }
}

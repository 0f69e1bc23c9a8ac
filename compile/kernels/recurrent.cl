// Steps of GRU and LSTM layers, the inputs' products with their weights being there. A work-item has
// ROWS sequences of one direction and a block of 16 hidden units, or all of them (WHOLE); a launch
// has one step, or ALL_STEPS.

// Relative error 2e-7, also near zero (polynomial: Cephes, tanhf).
INLINE float16 tangent(const float16 v) {
  const float16 z = v * v;
  float16 p = fma(z, (float16)(-5.70498872745e-3f), (float16)(2.06390887954e-2f));
  p = fma(p, z, (float16)(-5.37397155531e-2f));
  p = fma(p, z, (float16)(1.33314422036e-1f));
  p = fma(p, z, (float16)(-3.33332819422e-1f));
  const float16 far = copysign(1.0f - 2.0f / (exponential(2.0f * fabs(v)) + 1.0f), v);
  return fabs(v) < 0.625f ? fma(p * z, v, v) : far;
}

INLINE float16 sigmoid(const float16 v) { return 1.0f / (1.0f + exponential(-v)); }

// Adds the products of the hidden units' values and `count` blocks of 16 columns.
INLINE void multiply(float16 sum[ROWS][GATES], const float16 state[ROWS][BLOCKS],
                     __global const float *restrict weights, const int count) {
  // Sums of even and odd units: one alone would wait for the one before it.
  float16 odd[ROWS][GATES];
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int g = 0; g < count; g++) odd[r][g] = (float16)(0.0f);
  const float *values = (const float *)state;
  for (int k = 0; k + 2 <= HIDDEN; k += 2) {
#pragma unroll
    for (int g = 0; g < count; g++) {
      const float16 a = load16(k * count + g, weights), b = load16((k + 1) * count + g, weights);
#pragma unroll
      for (int r = 0; r < ROWS; r++) {
        sum[r][g] = fma((float16)(values[r * BLOCKS * 16 + k]), a, sum[r][g]);
        odd[r][g] = fma((float16)(values[r * BLOCKS * 16 + k + 1]), b, odd[r][g]);
      }
    }
  }
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int g = 0; g < count; g++) {
#if HIDDEN % 2
      const float16 a = load16((HIDDEN - 1) * count + g, weights);
      odd[r][g] = fma((float16)(values[r * BLOCKS * 16 + HIDDEN - 1]), a, odd[r][g]);
#endif
      sum[r][g] += odd[r][g];
    }
}

INLINE void clear(float16 sum[ROWS][GATES]) {
#pragma unroll
  for (int r = 0; r < ROWS; r++)
#pragma unroll
    for (int g = 0; g < GATES; g++) sum[r][g] = (float16)(0.0f);
}

// The next values of the units of a block; `in` are the inputs' products for the first row.
#define INPUT(r, g) load16(block * GATES + g, in + (r) * DIRECTIONS * BLOCKS * GATES * 16)

#if LSTM
// Gates: input, output, forget, cell.
INLINE void advance(float16 next[ROWS][BLOCKS], float16 cell[ROWS][BLOCKS],
                    const float16 state[ROWS][BLOCKS], __global const float *restrict in,
                    __global const float *restrict weights, const int block) {
  float16 sum[ROWS][GATES];
  clear(sum);
  multiply(sum, state, weights + block * HIDDEN * GATES * 16, GATES);
  for (int r = 0; r < ROWS; r++) {
    const float16 kept = sigmoid(INPUT(r, 2) + sum[r][2]) * cell[r][block];
    const float16 added = sigmoid(INPUT(r, 0) + sum[r][0]) * tangent(INPUT(r, 3) + sum[r][3]);
    cell[r][block] = kept + added;
    next[r][block] = sigmoid(INPUT(r, 1) + sum[r][1]) * tangent(cell[r][block]);
  }
}
#else
// Gates: update, reset, hidden.
INLINE float16 mixed(const float16 update, const float16 hidden, const float16 old) {
  return (1.0f - update) * hidden + update * old;
}

#if LINEAR_BEFORE_RESET
INLINE void advance(float16 next[ROWS][BLOCKS], const float16 state[ROWS][BLOCKS],
                    __global const float *restrict in, __global const float *restrict weights,
                    __global const float *restrict bias, const int block) {
  float16 sum[ROWS][GATES];
  clear(sum);
  multiply(sum, state, weights + block * HIDDEN * GATES * 16, GATES);
  for (int r = 0; r < ROWS; r++) {
    const float16 reset = sigmoid(INPUT(r, 1) + sum[r][1]);
    const float16 hidden = tangent(INPUT(r, 2) + reset * (sum[r][2] + load16(block, bias)));
    next[r][block] = mixed(sigmoid(INPUT(r, 0) + sum[r][0]), hidden, state[r][block]);
  }
}
#else
// The hidden gate multiplies what the reset gate leaves of all units: first those, then it.
INLINE void advance_all(float16 next[ROWS][BLOCKS], const float16 state[ROWS][BLOCKS],
                        __global const float *restrict in, __global const float *restrict weights) {
  float16 left[ROWS][BLOCKS], sum[ROWS][GATES];
  for (int block = 0; block < BLOCKS; block++) {
    clear(sum);
    multiply(sum, state, weights + block * HIDDEN * 2 * 16, 2);
    for (int r = 0; r < ROWS; r++) {
      next[r][block] = sigmoid(INPUT(r, 0) + sum[r][0]);
      left[r][block] = sigmoid(INPUT(r, 1) + sum[r][1]) * state[r][block];
    }
  }
  for (int block = 0; block < BLOCKS; block++) {
    clear(sum);
    multiply(sum, left, weights + (BLOCKS * 2 + block) * HIDDEN * 16, 1);
    for (int r = 0; r < ROWS; r++) {
      const float16 hidden = tangent(INPUT(r, 2) + sum[r][0]);
      next[r][block] = mixed(next[r][block], hidden, state[r][block]);
    }
  }
}
#endif
#endif

#define LANES(block) min(16, HIDDEN - (block) * 16)

INLINE void load_rows(float16 to[ROWS][BLOCKS], __global const float *from, const int first,
                      const int last) {
  for (int r = 0; r < ROWS; r++)
    for (int block = first; block < last; block++)
      to[r][block] = load_lanes(from + r * HIDDEN + block * 16, LANES(block));
}

INLINE void store_rows(const float16 from[ROWS][BLOCKS], __global float *to, const int first,
                       const int last) {
  for (int r = 0; r < ROWS; r++)
    for (int block = first; block < last; block++)
      store_lanes(from[r][block], to + r * HIDDEN + block * 16, LANES(block));
}

__kernel __attribute__((reqd_work_group_size(1, 1, 1))) void NAME(PARAMETERS) {
  const int row = get_global_id(0) * ROWS, direction = get_global_id(1);
  const int at = (direction * BATCH + row) * HIDDEN;
  weights += direction * BLOCKS * HIDDEN * GATES * 16;
  in += (row * DIRECTIONS + direction) * BLOCKS * GATES * 16;
#if LINEAR_BEFORE_RESET
  bias += direction * BLOCKS * 16;
#endif
  float16 state[ROWS][BLOCKS], next[ROWS][BLOCKS];
  load_rows(state, initial + at, 0, BLOCKS);
#if WHOLE
  const int first = 0, last = BLOCKS;
#else
  const int first = get_global_id(2), last = first + 1;
#endif
#if ALL_STEPS
  const int from = 0, to = STEPS;
#else
  const int from = number[0], to = from + 1;
#endif
#if LSTM
  float16 cell[ROWS][BLOCKS];
  load_rows(cell, initial_cell + at, first, last);
#endif
  for (int step = from; step < to; step++) {
    const int time = REVERSE(direction) ? STEPS - 1 - step : step;
    __global const float *now = in + time * BATCH * DIRECTIONS * BLOCKS * GATES * 16;
#if LSTM
    for (int block = first; block < last; block++) advance(next, cell, state, now, weights, block);
#elif LINEAR_BEFORE_RESET
    for (int block = first; block < last; block++) advance(next, state, now, weights, bias, block);
#else
    advance_all(next, state, now, weights);
#endif
#if ALL_STEPS
    store_rows(next, all + time * DIRECTIONS * BATCH * HIDDEN + at, first, last);
#endif
#if WHOLE
    for (int r = 0; r < ROWS; r++)
      for (int block = 0; block < BLOCKS; block++) state[r][block] = next[r][block];
#endif
  }
  store_rows(next, out + at, first, last);
#if LSTM
  store_rows(cell, out_cell + at, first, last);
#endif
}

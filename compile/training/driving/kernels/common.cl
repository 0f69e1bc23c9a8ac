#define INLINE static inline __attribute__((always_inline))
#define KERNEL __kernel __attribute__((reqd_work_group_size(1, 1, 1)))
#define IN __global const float *restrict
#define OUT __global float *restrict

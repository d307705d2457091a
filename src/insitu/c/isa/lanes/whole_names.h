/* The end of what half_names.h says. */
#undef vf
#undef LANES
#undef vf_load
#undef vf_full
#undef vf_load_s8
#undef vf_store
#undef vf_put
#undef vf_set
#undef vf_zero
#undef vf_fma
#undef vf_add
#undef vf_min
#undef vf_max
#undef matrix_ended
#undef matrix_load
#undef matrix_block

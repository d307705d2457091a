/* Half a vector under the names of a whole one, for what is included a second time: until whole_names.h. */
#define vf vh
#define LANES HALF_LANES
#define vf_load vh_load
#define vf_full vh_full
#define vf_load_s8 vh_load_s8
#define vf_store vh_store
#define vf_put vh_put
#define vf_set vh_set
#define vf_zero vh_zero
#define vf_fma vh_fma
#define vf_add vh_add
#define vf_min vh_min
#define vf_max vh_max
#define matrix_ended half_ended
#define matrix_load half_load
#define matrix_block half_block

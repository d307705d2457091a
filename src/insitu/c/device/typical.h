/* What is kept of a class stays typical of it: see typical.c. */
#ifndef INSITU_TYPICAL_H
#define INSITU_TYPICAL_H

#include "device/life.h"

/* The id of the trainee of this class that gives way, the newcomer among them if it has that class; `chosen` if that is
 * not to be asked. The latents and features at hand are the newcomer's; the latents are so again afterwards. */
uint32_t typical_spared(const life_model *m, const rules_record *newcomer, int32_t label, uint32_t chosen);

#endif

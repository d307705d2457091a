/* Functions that a compiler calls by itself, for a core with an FPU: bytes set and copied, under the names of C and of
 * Arm's ABI. Linked in place of zig's runtime, which is built for a target before it is linked, and as long as nothing
 * else of that is needed (a double, a 64-bit division); other compilers bring theirs.
 */
#include <stddef.h>
#include <stdint.h>

#define SAME_AS(function) __attribute__((alias(#function)))
#define KEEP_LOOP __asm__ volatile("") /* or the compiler recognises a memset here, and calls it */

typedef uint32_t __attribute__((may_alias)) any_word;

void *memset(void *to, int value, size_t bytes);
void *memcpy(void *restrict to, const void *restrict from, size_t bytes);
void *memmove(void *to, const void *from, size_t bytes);
void __aeabi_memset(void *to, size_t bytes, int value);
void __aeabi_memset4(void *to, size_t bytes, int value) SAME_AS(__aeabi_memset);
void __aeabi_memset8(void *to, size_t bytes, int value) SAME_AS(__aeabi_memset);
void __aeabi_memclr(void *to, size_t bytes);
void __aeabi_memclr4(void *to, size_t bytes) SAME_AS(__aeabi_memclr);
void __aeabi_memclr8(void *to, size_t bytes) SAME_AS(__aeabi_memclr);
void __aeabi_memcpy(void *restrict to, const void *restrict from, size_t bytes);
void __aeabi_memcpy4(void *restrict to, const void *restrict from, size_t bytes) SAME_AS(__aeabi_memcpy);
void __aeabi_memcpy8(void *restrict to, const void *restrict from, size_t bytes) SAME_AS(__aeabi_memcpy);
void __aeabi_memmove(void *to, const void *from, size_t bytes);
void __aeabi_memmove4(void *to, const void *from, size_t bytes) SAME_AS(__aeabi_memmove);
void __aeabi_memmove8(void *to, const void *from, size_t bytes) SAME_AS(__aeabi_memmove);

/* by words if it is word-aligned, as arrays are */
__attribute__((noinline)) void *memset(void *to, int value, size_t bytes)
{
    uint8_t *p = to;
    const uint32_t word = (uint8_t)value * 0x01010101u;
    for (; ((uintptr_t)to & 3) == 0 && bytes >= 4; bytes -= 4) {
        KEEP_LOOP;
        *(any_word *)p = word;
        p += 4;
    }
    for (; bytes; bytes--) {
        KEEP_LOOP;
        *p++ = (uint8_t)value;
    }
    return to;
}

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    const uint8_t *q = from;
    for (uint8_t *p = to, *const end = p + bytes; p < end;) {
        KEEP_LOOP;
        *p++ = *q++;
    }
    return to;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    if ((uintptr_t)to <= (uintptr_t)from) {
        return memcpy(to, from, bytes);
    }
    const uint8_t *q = (const uint8_t *)from + bytes;
    for (uint8_t *p = (uint8_t *)to + bytes; p > (uint8_t *)to;) {
        KEEP_LOOP;
        *--p = *--q;
    }
    return to;
}

void __aeabi_memset(void *to, size_t bytes, int value)
{
    memset(to, value, bytes);
}

void __aeabi_memclr(void *to, size_t bytes)
{
    memset(to, 0, bytes);
}

void __aeabi_memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    memcpy(to, from, bytes);
}

void __aeabi_memmove(void *to, const void *from, size_t bytes)
{
    memmove(to, from, bytes);
}

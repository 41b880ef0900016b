/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program finds when it asks whether the MPI library has a function: the answer that it
 * would get without us. We stand in front of functions of MPI 4 that an older library (Open MPI 4)
 * does not have, and a program that is built for several MPIs (mpi4py's wheel) looks for them by
 * weak references or dlsym, and goes another way where they are missing. So a name of ours that no
 * other object of the process defines is taken back: its symbol is made local in our own symbol
 * table, in memory, which is what the dynamic loader passes over.
 *
 * - MPI is there at start: the loader relocates us before the program. Among our relocations is an
 *   indirect one, whose resolver looks and takes names back; the program is bound afterwards.
 *   Libraries that were bound before us have our address in weak references, and get it replaced by
 *   the null that they would have.
 * - MPI comes later, with a module that is opened (Python): until then our symbols are indirect
 *   ones, so that the loader asks us while it binds that module. Before there is an MPI library our
 *   functions are found, as ever.
 *
 * The resolver runs while our own library is half relocated: it calls nothing but what is reached
 * through the global offset table (-fno-plt). Where anything is not as expected all stays as it
 * was, and a function that is not there returns an error.
 */
#include "inside.h"

#include <elf.h>
#include <errno.h>
#include <link.h>
#include <sys/mman.h>

int tw_mpi_missing(void)
{
    return tw_mpi_abi() ? tw_mpi_abi()->unsupported : TW_MPI_NO_FUNCTION;
}

#ifdef TW_MPI_OFFERS

#if defined __x86_64__
enum { REFERENCE = R_X86_64_GLOB_DAT, ADDRESS = R_X86_64_64, CALL = R_X86_64_JUMP_SLOT };
#elif defined __aarch64__
enum { REFERENCE = R_AARCH64_GLOB_DAT, ADDRESS = R_AARCH64_ABS64, CALL = R_AARCH64_JUMP_SLOT };
#else
#error "which relocations refer to a function here?"
#endif

enum { NAMES = 1024 }; /* more than we have */

/* ---- an object, as the loader has it in memory */

struct object {
    uintptr_t base;
    const ElfW(Phdr) * headers;
    int n_headers;
    const ElfW(Sym) * symbols;
    const char *names;
    const uint32_t *gnu;  /* its table of hashes, or */
    const uint32_t *sysv; /* the older one */
    const ElfW(Rela) * relocations[2];
    size_t n_relocations[2];
};

/* Addresses in the dynamic section are the loader's, but not in every object (the kernel's). */
static const void *address(const struct object *o, ElfW(Addr) given)
{
    return (const void *)(given < o->base ? given + o->base : given);
}

static void take_entry(struct object *o, const ElfW(Dyn) * d)
{
    switch (d->d_tag) {
    case DT_SYMTAB: o->symbols = address(o, d->d_un.d_ptr); break;
    case DT_STRTAB: o->names = address(o, d->d_un.d_ptr); break;
    case DT_GNU_HASH: o->gnu = address(o, d->d_un.d_ptr); break;
    case DT_HASH: o->sysv = address(o, d->d_un.d_ptr); break;
    case DT_RELA: o->relocations[0] = address(o, d->d_un.d_ptr); break;
    case DT_RELASZ: o->n_relocations[0] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
    case DT_JMPREL: o->relocations[1] = address(o, d->d_un.d_ptr); break;
    case DT_PLTRELSZ: o->n_relocations[1] = d->d_un.d_val / sizeof(ElfW(Rela)); break;
    default: break;
    }
}

/* False: it has no symbols. */
static bool look_at(struct object *o, const struct dl_phdr_info *info)
{
    *o = (struct object){
        .base = info->dlpi_addr, .headers = info->dlpi_phdr, .n_headers = info->dlpi_phnum};
    for (int i = 0; i < o->n_headers; i++) {
        if (o->headers[i].p_type != PT_DYNAMIC)
            continue;
        const ElfW(Dyn) *d = (const ElfW(Dyn) *)(o->base + o->headers[i].p_vaddr);
        for (; d->d_tag != DT_NULL; d++)
            take_entry(o, d);
    }
    return o->symbols && o->names && (o->gnu || o->sysv);
}

static bool is_same(const char *a, const char *b)
{
    while (*a && *a == *b) {
        a++;
        b++;
    }
    return *a == *b;
}

static bool is_defined(const ElfW(Sym) * s)
{
    const int bind = ELF64_ST_BIND(s->st_info);
    return s->st_shndx != SHN_UNDEF && s->st_value != 0 &&
           (bind == STB_GLOBAL || bind == STB_WEAK || bind == STB_GNU_UNIQUE);
}

static uint32_t gnu_hash(const char *name)
{
    uint32_t h = 5381;
    for (; *name; name++)
        h = h * 33 + (unsigned char)*name;
    return h;
}

static uint32_t sysv_hash(const char *name)
{
    uint32_t h = 0;
    for (; *name; name++) {
        h = (h << 4) + (unsigned char)*name;
        h ^= (h & 0xf0000000) >> 24;
        h &= 0x0fffffff;
    }
    return h;
}

/* The parts of a table of hashes: buckets, and the chain of symbol `first` and those after it. */
struct chains {
    uint32_t n, first;
    const uint32_t *buckets, *chain;
};

static struct chains gnu_chains(const struct object *o)
{
    const uint32_t words = o->gnu[2]; /* of the filter, each as wide as an address */
    struct chains c = {.n = o->gnu[0], .first = o->gnu[1]};
    c.buckets = o->gnu + 4 + words * (sizeof(ElfW(Addr)) / sizeof(uint32_t));
    c.chain = c.buckets + c.n;
    return c;
}

static bool in_gnu_chain(const struct object *o, const char *name, uint32_t hash)
{
    const struct chains c = gnu_chains(o);
    uint32_t at = c.n ? c.buckets[hash % c.n] : 0;
    for (; at >= c.first && at != 0; at++) {
        const uint32_t there = c.chain[at - c.first];
        const ElfW(Sym) *s = &o->symbols[at];
        if ((there | 1) == (hash | 1) && is_defined(s) && is_same(o->names + s->st_name, name))
            return true;
        if (there & 1)
            break;
    }
    return false;
}

/* hash: the name's, as DT_GNU_HASH has it. */
static bool defines(const struct object *o, const char *name, uint32_t hash)
{
    if (o->gnu)
        return in_gnu_chain(o, name, hash);
    const uint32_t buckets = o->sysv[0];
    uint32_t at = buckets ? o->sysv[2 + sysv_hash(name) % buckets] : 0;
    for (; at != 0; at = o->sysv[2 + buckets + at])
        if (is_defined(&o->symbols[at]) && is_same(o->names + o->symbols[at].st_name, name))
            return true;
    return false;
}

/* ---- what we export */

static struct {
    struct object object;
    ElfW(Sym) * symbol[NAMES];
    uint32_t hash[NAMES];
    bool elsewhere[NAMES]; /* another object defines it, too */
    size_t n;
    bool library; /* one of MPI is there */
} ours;

static const char *name_of(size_t i)
{
    return ours.object.names + ours.symbol[i]->st_name;
}

/* All functions that our library exports are MPI's. False: not in the way that we can read. */
static bool take_ours(void)
{
    const struct object *o = &ours.object;
    if (!o->gnu)
        return false;
    const struct chains c = gnu_chains(o);
    for (uint32_t b = 0; b < c.n; b++) {
        for (uint32_t at = c.buckets[b]; at >= c.first && at != 0; at++) {
            const ElfW(Sym) *s = &o->symbols[at];
            if (is_defined(s)) {
                if (ours.n == NAMES)
                    return false;
                ours.symbol[ours.n] = (ElfW(Sym) *)(uintptr_t)s;
                ours.hash[ours.n] = gnu_hash(o->names + s->st_name);
                ours.n++;
            }
            if (c.chain[at - c.first] & 1)
                break;
        }
    }
    return ours.n > 0;
}

extern const ElfW(Ehdr) __ehdr_start __attribute__((visibility("hidden")));

static int find_ours(struct dl_phdr_info *info, size_t size, void *user)
{
    (void)size;
    const uintptr_t here = (uintptr_t)&__ehdr_start;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type == PT_LOAD && here - info->dlpi_addr - p->p_vaddr < p->p_memsz)
            *(bool *)user = look_at(&ours.object, info) && take_ours();
    }
    return *(bool *)user;
}

static int find_others(struct dl_phdr_info *info, size_t size, void *user)
{
    struct object o;
    (void)size;
    (void)user;
    if (info->dlpi_addr == ours.object.base || !look_at(&o, info))
        return 0;
    ours.library |= defines(&o, "PMPI_Init", gnu_hash("PMPI_Init"));
    for (size_t i = 0; i < ours.n; i++)
        if (!ours.elsewhere[i])
            ours.elsewhere[i] = defines(&o, name_of(i), ours.hash[i]);
    return 0;
}

/* ---- changing what is there */

static int rights(const ElfW(Phdr) * p)
{
    int r = p->p_flags & PF_R ? PROT_READ : 0;
    r |= p->p_flags & PF_W ? PROT_WRITE : 0;
    return r | (p->p_flags & PF_X ? PROT_EXEC : 0);
}

/* Makes [from, to) of an object writable, or gives it the rights back that it has. False: no. */
static bool unlock(const struct object *o, const void *from, const void *to, bool back)
{
    enum { PAGE = 4096, LARGEST_PAGE = 65536 };
    const uintptr_t start = (uintptr_t)from, end = (uintptr_t)to;
    const ElfW(Phdr) *within = NULL, *relro = NULL;
    for (int i = 0; i < o->n_headers; i++) {
        const ElfW(Phdr) *p = &o->headers[i];
        const bool has = start - o->base - p->p_vaddr < p->p_memsz;
        if (has && p->p_type == PT_LOAD)
            within = p;
        if (has && p->p_type == PT_GNU_RELRO)
            relro = p;
    }
    if (!within)
        return false;
    int right = rights(within);
    if (relro && back)
        right &= ~PROT_WRITE;
    if (!back)
        right |= PROT_WRITE;
    /* the page's size is not asked for: larger ones are tried where smaller ones are refused */
    for (uintptr_t page = PAGE; page <= LARGEST_PAGE; page *= 4) {
        const uintptr_t at = start & ~(page - 1);
        if (mprotect((void *)at, end - at, right) == 0)
            return true;
    }
    return false;
}

static bool unlock_ours(bool back)
{
    const ElfW(Sym) *first = ours.symbol[0], *last = first;
    for (size_t i = 0; i < ours.n; i++) {
        if (ours.symbol[i] < first)
            first = ours.symbol[i];
        if (ours.symbol[i] > last)
            last = ours.symbol[i];
    }
    return unlock(&ours.object, first, last + 1, back);
}

/* One byte each, so that a thread that looks a name up meanwhile sees it as it was, or is. */
static void take_back(void)
{
    for (size_t i = 0; i < ours.n; i++) {
        unsigned char *info = &ours.symbol[i]->st_info;
        if (!ours.elsewhere[i])
            __atomic_store_n(info, ELF64_ST_INFO(STB_LOCAL, ELF64_ST_TYPE(*info)),
                             __ATOMIC_RELAXED);
    }
}

/* The function of ours that is at this address, and was taken back. */
static bool is_taken_back(uintptr_t at)
{
    for (size_t i = 0; i < ours.n; i++)
        if (ours.object.base + ours.symbol[i]->st_value == at)
            return !ours.elsewhere[i];
    return false;
}

static bool within_ours(uintptr_t at)
{
    const struct object *o = &ours.object;
    for (int i = 0; i < o->n_headers; i++)
        if (o->headers[i].p_type == PT_LOAD &&
            at - o->base - o->headers[i].p_vaddr < o->headers[i].p_memsz)
            return true;
    return false;
}

/* A weak reference that was bound to a function before it was taken back. */
static void unbind(const struct object *o, const ElfW(Rela) * r)
{
    const uint32_t type = (uint32_t)ELF64_R_TYPE(r->r_info);
    const ElfW(Sym) *s = &o->symbols[ELF64_R_SYM(r->r_info)];
    if ((type != REFERENCE && type != ADDRESS && type != CALL) || s->st_shndx != SHN_UNDEF ||
        ELF64_ST_BIND(s->st_info) != STB_WEAK)
        return;
    uintptr_t *slot = (uintptr_t *)(o->base + r->r_offset);
    if (!within_ours(*slot) || !is_taken_back(*slot) || !unlock(o, slot, slot + 1, false))
        return;
    *slot = 0;
    unlock(o, slot, slot + 1, true);
}

static int unbind_weak(struct dl_phdr_info *info, size_t size, void *user)
{
    struct object o;
    (void)size;
    (void)user;
    if (info->dlpi_addr == ours.object.base || !look_at(&o, info))
        return 0;
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; o.relocations[k] && i < o.n_relocations[k]; i++)
            unbind(&o, &o.relocations[k][i]);
    return 0;
}

/* ---- when it is asked */

extern const struct tw_mpi_offer __start_tw_mpi_offers[] __attribute__((visibility("hidden")));
extern const struct tw_mpi_offer __stop_tw_mpi_offers[] __attribute__((visibility("hidden")));

/* The loader asks a resolver of ours whenever it binds one of the names, or dlsym does. Nothing
 * else runs in the process yet. */
static void wait_for_library(void)
{
    for (size_t i = 0; i < ours.n; i++) {
        const uintptr_t at = ours.object.base + ours.symbol[i]->st_value;
        const struct tw_mpi_offer *o = __start_tw_mpi_offers;
        while (o < __stop_tw_mpi_offers && (uintptr_t)o->function != at)
            o++;
        if (o == __stop_tw_mpi_offers)
            continue;
        ours.symbol[i]->st_info = ELF64_ST_INFO(ELF64_ST_BIND(ours.symbol[i]->st_info),
                                                STT_GNU_IFUNC);
        ours.symbol[i]->st_value = (uintptr_t)o->resolver - ours.object.base;
    }
}

static void start(void)
{
    bool found = false;
    dl_iterate_phdr(find_ours, &found);
    if (!found)
        return;
    dl_iterate_phdr(find_others, NULL);
    if (!unlock_ours(false))
        return;
    if (ours.library)
        take_back();
    else
        wait_for_library();
    unlock_ours(true);
    if (ours.library)
        dl_iterate_phdr(unbind_weak, NULL);
}

/* Indirect functions of a module are bound one after the other, by any thread. */
void *tw_mpi_offered(void (*function)(void), void *(*resolver)(void))
{
    static atomic_flag lock = ATOMIC_FLAG_INIT;
    const int before = errno;
    tw_mpi_hold(&lock);
    if (!ours.library) {
        dl_iterate_phdr(find_others, NULL);
        if (ours.library && unlock_ours(false)) {
            take_back();
            unlock_ours(true);
        }
    }
    void *answer = (void *)function;
    const uintptr_t at = (uintptr_t)resolver - ours.object.base;
    for (size_t i = 0; ours.library && i < ours.n; i++)
        if (ours.symbol[i]->st_value == at && !ours.elsewhere[i])
            answer = NULL;
    tw_mpi_release(&lock);
    errno = before;
    return answer;
}

static void nothing(void)
{
}

__attribute__((used)) static void (*resolve(void))(void)
{
    start();
    return nothing;
}

/* It does nothing at start: that its address has to be found out is what makes the loader ask. */
static void asked(void) __attribute__((ifunc("resolve")));
static void (*const at_start)(void) __attribute__((section(".init_array"), used)) = asked;

#endif

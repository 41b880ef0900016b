/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A library that is linked statically into a program, or into another library, is no file of its
 * own: its functions stand in that file's table of symbols. The file may have been replaced since
 * it was loaded, or be no ELF file at all, so each number in it is held against its size.
 */
#include "defined.h"
#include "mapped.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* A file as it is mapped. */
struct image {
    const unsigned char *at;
    size_t bytes;
};

static bool lies_within(const struct image *m, uint64_t offset, uint64_t bytes)
{
    return offset <= m->bytes && bytes <= m->bytes - offset;
}

/* Is there such a function in a table of symbols, whose names are in `strings`? */
static bool defines(const struct image *m, const ElfW(Shdr) * table, const ElfW(Shdr) * strings,
                    const char *symbol)
{
    const size_t length = strlen(symbol) + 1, n = table->sh_size / sizeof(ElfW(Sym));
    if (!lies_within(m, table->sh_offset, table->sh_size) ||
        !lies_within(m, strings->sh_offset, strings->sh_size) || strings->sh_size < length ||
        table->sh_offset % _Alignof(ElfW(Sym)) != 0)
        return false;
    const ElfW(Sym) *s = (const ElfW(Sym) *)(const void *)(m->at + table->sh_offset);
    const char *names = (const char *)m->at + strings->sh_offset;
    for (size_t i = 0; i < n; i++)
        if (s[i].st_shndx != SHN_UNDEF && s[i].st_name <= strings->sh_size - length &&
            memcmp(names + s[i].st_name, symbol, length) == 0)
            return true;
    return false;
}

/* Its tables of sections; NULL: it is no such file. */
static const ElfW(Shdr) * sections_of(const struct image *m, unsigned *count)
{
    const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)(const void *)m->at;
    if (m->bytes < sizeof *e || memcmp(e->e_ident, ELFMAG, SELFMAG) != 0 ||
        e->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        e->e_shentsize != sizeof(ElfW(Shdr)) || e->e_shoff % _Alignof(ElfW(Shdr)) != 0 ||
        !lies_within(m, e->e_shoff, (uint64_t)e->e_shnum * sizeof(ElfW(Shdr))))
        return NULL;
    *count = e->e_shnum;
    return (const ElfW(Shdr) *)(const void *)(m->at + e->e_shoff);
}

static bool has_symbol(const struct image *m, const ElfW(Shdr) * s, unsigned n, const char *symbol)
{
    for (unsigned i = 0; i < n; i++)
        if ((s[i].sh_type == SHT_SYMTAB || s[i].sh_type == SHT_DYNSYM) && s[i].sh_link < n &&
            defines(m, &s[i], &s[s[i].sh_link], symbol))
            return true;
    return false;
}

/* Among its constants: the sections of read-only data, and not those of a GPU's machine code, which
 * may be larger than all else. */
static bool has_word(const struct image *m, const ElfW(Shdr) * s, unsigned n, const char *word)
{
    static const char data[] = ".rodata";
    const ElfW(Ehdr) *e = (const ElfW(Ehdr) *)(const void *)m->at;
    if (e->e_shstrndx >= n || !lies_within(m, s[e->e_shstrndx].sh_offset, s[e->e_shstrndx].sh_size))
        return false;
    const ElfW(Shdr) *names = &s[e->e_shstrndx];
    for (unsigned i = 0; i < n; i++)
        if (s[i].sh_type == SHT_PROGBITS && names->sh_size >= sizeof data &&
            s[i].sh_name <= names->sh_size - sizeof data &&
            memcmp(m->at + names->sh_offset + s[i].sh_name, data, sizeof data - 1) == 0 &&
            lies_within(m, s[i].sh_offset, s[i].sh_size) &&
            memmem(m->at + s[i].sh_offset, s[i].sh_size, word, strlen(word)))
            return true;
    return false;
}

static bool look_into(const struct image *m, const char *symbol, const char *word)
{
    unsigned n = 0;
    const ElfW(Shdr) *s = sections_of(m, &n);
    return s && has_symbol(m, s, n, symbol) && has_word(m, s, n, word);
}

bool tw_defined_in(const char *path, const char *symbol, const char *word)
{
    const int before = errno;
    struct stat st;
    bool found = false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        struct image m = {.bytes = (size_t)st.st_size};
        void *at = mmap(NULL, m.bytes, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at != MAP_FAILED) {
            m.at = at;
            found = look_into(&m, symbol, word);
            munmap(at, m.bytes);
        }
    }
    if (fd >= 0)
        close(fd);
    errno = before;
    return found;
}

/* ---- NCCL */

struct looking {
    bool driver;
    struct tw_nccl_home *home;
};

static bool is_file(const char *path, const char *begins)
{
    const char *slash = strrchr(path, '/');
    return slash && strncmp(slash + 1, begins, strlen(begins)) == 0;
}

/* By names alone. */
static void look_at_name(const char *path, void *user)
{
    struct looking *l = user;
    l->driver |= is_file(path, "libcuda.so");
    l->home->torch |= is_file(path, "libtorch_python");
    if (is_file(path, "libnccl.so") || is_file(path, "librccl.so")) {
        l->home->linked = TW_LINKED_SHARED;
        snprintf(l->home->file, sizeof l->home->file, "%s", path);
    }
}

/* Not a stub, which has functions of these names and loads the library (TensorFlow's): NCCL itself
 * asks for this variable. */
static void look_at_symbols(const char *path, void *user)
{
    struct looking *l = user;
    if (l->home->linked != TW_LINKED_NOT ||
        !tw_defined_in(path, "ncclCommInitRank", "NCCL_DEBUG_SUBSYS"))
        return;
    l->home->linked = TW_LINKED_STATIC;
    snprintf(l->home->file, sizeof l->home->file, "%s", path);
}

void tw_nccl_home(struct tw_nccl_home *home)
{
    const int before = errno;
    struct looking l = {.home = home};
    *home = (struct tw_nccl_home){.linked = TW_LINKED_NOT};
    tw_each_mapped(look_at_name, &l);
    if (!l.driver)
        home->linked = TW_LINKED_NOT;
    else if (home->linked == TW_LINKED_NOT)
        tw_each_mapped(look_at_symbols, &l);
    errno = before;
}

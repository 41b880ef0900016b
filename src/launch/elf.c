/* SPDX-License-Identifier: Apache-2.0 */
/* What kind of program a file is: a script, an ELF file for this machine or another one, static or
 * dynamic, with a sanitizer or not. Only what decides whether our agent can be preloaded is read.
 * Asked by trial.c before the job, by proc.c for programs that the job started, by spawn.c to
 * explain a failed exec.
 *
 * The file is foreign: counts and sizes in it are checked against caps, and what does not fit is
 * taken for absent. */
#include "launch.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#if defined(__x86_64__)
#define OUR_MACHINE EM_X86_64
#elif defined(__aarch64__)
#define OUR_MACHINE EM_AARCH64
#elif defined(__powerpc64__)
#define OUR_MACHINE EM_PPC64
#elif defined(__riscv)
#define OUR_MACHINE EM_RISCV
#else
#error "tell elf.c the ELF machine number of this architecture"
#endif
#define OUR_DATA (BYTE_ORDER == LITTLE_ENDIAN ? ELFDATA2LSB : ELFDATA2MSB)

/* More headers than any real program has, and more bytes than a string table. */
enum { MAX_HEADERS = 512, STRINGS_MAX = 64 << 20 };

/* The function by which each sanitizer's runtime starts. */
static const struct {
    const char *symbol, *name;
} sanitizers[] = {
    {"__asan_init", "ASan"},
    {"__tsan_init", "TSan"},
    {"__msan_init", "MSan"},
    {"__hwasan_init", "HWASan"},
};

/* A sanitizer's runtime shows by its start function in a string table, linked in or a library
 * alike. */
static const char *sanitizer_in(const char *strings, size_t n)
{
    for (size_t i = 0; i < sizeof sanitizers / sizeof sanitizers[0]; i++)
        if (memmem(strings, n, sanitizers[i].symbol, strlen(sanitizers[i].symbol) + 1))
            return sanitizers[i].name;
    return NULL;
}

/* Looks for a sanitizer, and for the first call of MPI, in the string tables. Leaves out->sanitizer
 * NULL where there is none. */
static void read_sections(int fd, const Elf64_Ehdr *h, struct tw_elf *out)
{
    Elf64_Shdr section;
    if (h->e_shentsize != sizeof section || h->e_shnum > MAX_HEADERS)
        return;
    for (unsigned i = 0; i < h->e_shnum; i++) {
        if (tw_pread_all(fd, &section, sizeof section, h->e_shoff + i * sizeof section) !=
            sizeof section)
            return;
        if (section.sh_type != SHT_STRTAB || section.sh_size == 0 || section.sh_size > STRINGS_MAX)
            continue;
        char *strings = tw_malloc(section.sh_size);
        if (!strings)
            return;
        ssize_t n = tw_pread_all(fd, strings, section.sh_size, section.sh_offset);
        if (n > 0 && !out->sanitizer)
            out->sanitizer = sanitizer_in(strings, (size_t)n);
        if (n > 0)
            out->mpi |= memmem(strings, (size_t)n, "MPI_Init", strlen("MPI_Init")) != NULL;
        tw_free(strings);
    }
}

/* Finds the dynamic loader that the program asks for. A program that asks for none is static. */
static void read_headers(int fd, const Elf64_Ehdr *h, struct tw_elf *out)
{
    Elf64_Phdr segment;
    if (h->e_phentsize != sizeof segment || h->e_phnum > MAX_HEADERS)
        return;
    for (unsigned i = 0; i < h->e_phnum; i++) {
        if (tw_pread_all(fd, &segment, sizeof segment, h->e_phoff + i * sizeof segment) !=
            sizeof segment)
            return;
        if (segment.p_type != PT_INTERP || segment.p_filesz == 0 ||
            segment.p_filesz > sizeof out->interp)
            continue;
        if (tw_pread_all(fd, out->interp, segment.p_filesz, segment.p_offset) !=
            (ssize_t)segment.p_filesz)
            return;
        out->interp[segment.p_filesz - 1] = '\0';
        out->dynamic = out->interp[0] != '\0';
    }
}

/* The text behind "#!", without spaces at either end. Stays "" for a file that is no script. */
static void read_shebang(int fd, struct tw_elf *out)
{
    char line[sizeof out->shebang + 2] = "";
    ssize_t n = tw_pread_all(fd, line, sizeof line - 1, 0);
    if (n < 3 || memcmp(line, "#!", 2) != 0)
        return;
    line[strcspn(line, "\n")] = '\0';
    const char *p = line + 2;
    p += strspn(p, " \t\r");
    size_t len = strlen(p);
    while (len && strchr(" \t\r", p[len - 1]))
        len--;
    memcpy(out->shebang, p, len);
    out->shebang[len] = '\0';
}

/* A file that opens but is no regular file gives 0 and an empty result. Opened without blocking: it
 * might be a pipe. */
int tw_elf_inspect(const char *path, struct tw_elf *out)
{
    *out = (struct tw_elf){0};
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return -1;
    struct stat st;
    Elf64_Ehdr h = {0};
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
        ssize_t n = tw_pread_all(fd, &h, sizeof h, 0);
        out->is_elf = n >= EI_NIDENT && memcmp(h.e_ident, ELFMAG, SELFMAG) == 0;
        if (!out->is_elf) {
            read_shebang(fd, out);
        } else if (n != sizeof h || h.e_ident[EI_CLASS] != ELFCLASS64 ||
                   h.e_ident[EI_DATA] != OUR_DATA || h.e_machine != OUR_MACHINE) {
            out->foreign = true;
        } else {
            read_headers(fd, &h, out);
            read_sections(fd, &h, out);
        }
    }
    close(fd);
    return 0;
}

/* Set-user-ID, set-group-ID or file capabilities that would give the program rights that we do not
 * have. */
bool tw_program_is_privileged(const char *path)
{
    struct stat st;
    if (stat(path, &st) != 0)
        return false;
    if ((st.st_mode & S_ISUID) && st.st_uid != geteuid())
        return true;
    if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getegid())
        return true;
    return geteuid() != 0 && getxattr(path, "security.capability", NULL, 0) > 0;
}

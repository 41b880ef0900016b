/* SPDX-License-Identifier: Apache-2.0 */
/* Functions in a file's own tables of symbols: of this program, of libc, and of files that are cut,
 * or of which each byte of the headers was changed in turn. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <elf.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "agents/common/defined.h"

static const char word[] = "a word of this test";

/* In the table of symbols, whatever the linker exports. */
__attribute__((used, noinline)) static int a_function_of_this_test(void)
{
    return (int)strlen(word);
}

static void test_own_file(void **state)
{
    (void)state;
    assert_true(tw_defined_in("/proc/self/exe", "a_function_of_this_test", word));
    assert_false(tw_defined_in("/proc/self/exe", "a_function_of_this_tes", word));
    assert_false(tw_defined_in("/proc/self/exe", "_function_of_this_test2", word));
    char absent[sizeof word]; /* made here, so that it is no constant of the program */
    memcpy(absent, word, sizeof word);
    memset(absent, '#', 6);
    assert_false(tw_defined_in("/proc/self/exe", "a_function_of_this_test", absent));
    assert_false(tw_defined_in("/proc/self/exe", "getpid", word)); /* called, and libc's */
    assert_int_not_equal(getpid(), 0);
}

static void test_no_such_file(void **state)
{
    (void)state;
    assert_false(tw_defined_in("/nowhere/at/all", "main", word));
    assert_false(tw_defined_in("/proc/self", "main", word));
    assert_false(tw_defined_in("/proc/self/status", "main", word)); /* says that it is empty */
    assert_false(tw_defined_in("/etc/passwd", "main", word));
}

/* The file in memory with these bytes; whatever comes of it, it must be an answer. */
static bool of_bytes(int fd, const void *bytes, size_t n)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    assert_int_equal(ftruncate(fd, 0), 0);
    assert_int_equal(pwrite(fd, bytes, n, 0), n);
    return tw_defined_in(path, "wanted", "this word");
}

/* A small file: a table of symbols, its names, constants, and the sections' names. */
struct small {
    ElfW(Ehdr) head;
    ElfW(Shdr) section[5];
    ElfW(Sym) symbol[2];
    char names[16], constants[16], section_names[24];
};

static struct small small_file(void)
{
    struct small s = {.names = "\0wanted", .constants = "this word", .section_names = "\0.rodata"};
    memcpy(s.head.e_ident, ELFMAG, SELFMAG);
    s.head.e_ident[EI_CLASS] = sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32;
    s.head.e_shoff = offsetof(struct small, section);
    s.head.e_shentsize = sizeof s.section[0];
    s.head.e_shnum = 5;
    s.head.e_shstrndx = 4;
    s.symbol[1].st_name = 1;
    s.symbol[1].st_shndx = 3;
    const struct {
        ElfW(Word) type;
        size_t offset, bytes;
    } all[5] = {{SHT_NULL, 0, 0},
                {SHT_SYMTAB, offsetof(struct small, symbol), sizeof s.symbol},
                {SHT_STRTAB, offsetof(struct small, names), sizeof s.names},
                {SHT_PROGBITS, offsetof(struct small, constants), sizeof s.constants},
                {SHT_STRTAB, offsetof(struct small, section_names), sizeof s.section_names}};
    for (int i = 0; i < 5; i++) {
        s.section[i].sh_type = all[i].type;
        s.section[i].sh_offset = all[i].offset;
        s.section[i].sh_size = all[i].bytes;
    }
    s.section[1].sh_link = 2;
    s.section[3].sh_name = 1;
    return s;
}

static void test_damaged_files(void **state)
{
    (void)state;
    const struct small whole = small_file();
    const int fd = memfd_create("small", 0);
    assert_true(fd >= 0);
    assert_true(of_bytes(fd, &whole, sizeof whole));
    size_t refused = 0;
    for (size_t n = 0; n < sizeof whole; n += 7)
        refused += !of_bytes(fd, &whole, n);
    assert_true(refused > 0);
    for (size_t i = 0; i < offsetof(struct small, names); i++)
        for (int with = 0; with < 3; with++) {
            static const unsigned char bits[] = {0xFF, 0x80, 0x01};
            struct small s = whole;
            ((unsigned char *)&s)[i] ^= bits[with];
            of_bytes(fd, &s, sizeof s);
        }
    struct small elsewhere = whole;
    elsewhere.symbol[1].st_shndx = SHN_UNDEF;
    assert_false(of_bytes(fd, &elsewhere, sizeof elsewhere));
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_own_file),
        cmocka_unit_test(test_no_such_file),
        cmocka_unit_test(test_damaged_files),
    };
    return a_function_of_this_test() ? cmocka_run_group_tests(tests, NULL, NULL) : 99;
}

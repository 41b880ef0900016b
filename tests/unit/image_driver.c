/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What src/image does with a layout, for tests in Python, which make the layouts:
 *
 *     image_driver root LAYOUT FOLDER     its root in FOLDER
 *     image_driver verify LAYOUT          each blob
 *     image_driver copy LAYOUT FOLDER
 *     image_driver lines ENGINE layout|digest network? gpus? UID   a command line, a word a line
 *     image_driver mount ROOT PATH
 *     image_driver contain RUN END SECONDS [deaf]      two scripts of sh
 *
 * Prints one line; an error with its code on stderr, and ends with 1.
 */
#include "src/image/image.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const struct twin_error *err)
{
    fprintf(stderr, "%d %s\n", err->code, err->message);
    return 1;
}

static int with_image(const char *what, const char *layout, const char *to)
{
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_image image;
    struct tw_root_counts counts = {0};
    int rc = tw_image_open(layout, NULL, NULL, &image, &err);
    if (rc == 0 && strcmp(what, "root") == 0)
        rc = tw_image_root(&image, to, &counts, &err);
    else if (rc == 0 && strcmp(what, "copy") == 0)
        rc = tw_image_copy(&image, to, &err);
    else if (rc == 0)
        rc = tw_image_verify(&image, &err);
    if (rc == 0)
        printf("%s %s %s entries=%llu setuid=%llu devices=%llu pipes=%llu\n", image.config,
               image.manifest, image.platform, (unsigned long long)counts.entries,
               (unsigned long long)counts.setuid, (unsigned long long)counts.devices,
               (unsigned long long)counts.pipes);
    tw_image_close(&image);
    return rc ? fail(&err) : 0;
}

static void print_words(const char *name, char **word)
{
    if (!word)
        return;
    printf("%s\n", name);
    for (; *word; word++)
        printf("    %s\n", *word);
}

static int lines(char **argv)
{
    static const char *const read_only[] = {"/w/replay/verified", "/w/replay/twinrun", "/data/x",
                                            NULL};
    static const char *const command[] = {"/w/replay/twinrun/bin/twinrun", "--replay-inside",
                                          "/w/replay", NULL};
    static const char config[] =
        "sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccd"
        "deeff";
    struct twin_error err = TWIN_ERROR_INIT;
    struct tw_command_lines l;
    struct tw_contained c = {.name = "twinrun-replay-1",
                             .root = "/w/replay/image/root",
                             .reference = "registry.example/train@sha256:0123",
                             .config = config,
                             .folder = "/w/replay",
                             .read_only = read_only,
                             .argv = command};
    if (!tw_container_of_word(argv[0], &c.engine))
        return 2;
    c.layout = strcmp(argv[1], "layout") == 0 ? "/w/replay/image/layout" : NULL;
    c.network = strcmp(argv[2], "network") == 0;
    c.pull = c.network;
    c.gpus = strcmp(argv[3], "gpus") == 0;
    c.uid = (uid_t)atoi(argv[4]);
    c.gid = c.uid;
    if (tw_container_lines(&c, &l, &err) != 0)
        return fail(&err);
    print_words("before", l.before);
    print_words("run", l.run);
    print_words("end", l.end);
    if (l.deaf)
        printf("deaf\n");
    tw_command_lines_free(&l);
    return 0;
}

static int contain(char *run, char *end, int seconds, bool deaf)
{
    static char shell[] = "sh", option[] = "-c";
    struct twin_error err = TWIN_ERROR_INIT;
    char *run_line[] = {shell, option, run, NULL}, *end_line[] = {shell, option, end, NULL};
    const struct tw_command_lines l = {
        .run = run_line, .end = end_line, .end_s = (unsigned)seconds, .deaf = deaf};
    struct tw_contained_end out;
    if (tw_contain(&l, false, &out, &err) != 0)
        return fail(&err);
    printf("status=%d interrupted=%d stays=%d\n", out.status, out.interrupted, out.stays);
    return 0;
}

int main(int argc, char **argv)
{
    struct twin_error err = TWIN_ERROR_INIT;
    if (argc == 7 && strcmp(argv[1], "lines") == 0)
        return lines(argv + 2);
    if ((argc == 5 || argc == 6) && strcmp(argv[1], "contain") == 0)
        return contain(argv[2], argv[3], atoi(argv[4]), argc == 6);
    if (argc == 4 && strcmp(argv[1], "mount") == 0)
        return tw_root_mount_point(argv[2], argv[3], &err) ? fail(&err) : 0;
    return argc >= 3 ? with_image(argv[1], argv[2], argc > 3 ? argv[3] : NULL) : 2;
}

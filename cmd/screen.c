/* SPDX-License-Identifier: Apache-2.0 */
/* The whole terminal of this process; see the header. */
#include "screen.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

/* The alternate screen; no wrapping: a character that is wider than it was counted must not make a
 * second line. */
#define ENTER "\033[?1049h\033[?25l\033[?7l\033[2J"
#define LEAVE "\033[?7h\033[?25h\033[?1049l"

static int signals = -1;
static bool drawing, keys;
static struct termios before;

bool tw_screen_possible(void)
{
    const char *term = getenv("TERM");
    return isatty(STDOUT_FILENO) && term && *term && strcmp(term, "dumb") != 0;
}

bool tw_screen_colours(void)
{
    const char *no = getenv("NO_COLOR");
    return tw_screen_possible() && !(no && *no);
}

void tw_screen_size(size_t *columns, size_t *rows)
{
    struct winsize w = {0};
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0;
    *columns = known && w.ws_col ? w.ws_col : 80;
    *rows = known && w.ws_row ? w.ws_row : 24;
}

/* Bytes of ours; nothing foreign is among them, or it has been made printable. */
static void put(const char *bytes, size_t n)
{
    fflush(stdout);
    (void)!tw_write_all(STDOUT_FILENO, bytes, n); /* exact bytes: sequences of this file */
}

static void take_terminal(void)
{
    keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    if (keys) {
        struct termios raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        raw.c_cc[VMIN] = 1;
        raw.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &raw);
    }
    put(ENTER, sizeof ENTER - 1);
}

static void give_terminal(void)
{
    put(LEAVE, sizeof LEAVE - 1);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSADRAIN, &before);
}

bool tw_screen_begin(bool drawn)
{
    static const int taken[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGTSTP};
    struct sigaction now;
    sigset_t set;
    sigemptyset(&set);
    /* what was ignored stays ignored: nohup, a shell's & */
    for (size_t i = 0; i < sizeof taken / sizeof taken[0]; i++)
        if (sigaction(taken[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN &&
            (drawn || taken[i] != SIGTSTP))
            sigaddset(&set, taken[i]);
    if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 ||
        (signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK)) < 0)
        return false;
    drawing = drawn;
    if (drawing)
        take_terminal();
    return true;
}

void tw_screen_end(void)
{
    if (drawing)
        give_terminal();
    if (signals >= 0)
        close(signals);
    signals = -1;
    drawing = false;
}

static enum tw_screen_event take_signal(void)
{
    struct signalfd_siginfo s;
    if (read(signals, &s, sizeof s) != (ssize_t)sizeof s)
        return TW_SCREEN_NOTHING;
    if (s.ssi_signo == SIGWINCH)
        return TW_SCREEN_RESIZE;
    if (s.ssi_signo != SIGTSTP)
        return TW_SCREEN_END;
    give_terminal();
    raise(SIGSTOP);
    take_terminal();
    return TW_SCREEN_RESIZE;
}

/* What a terminal sends for one press; several that came at once count as the first. */
static enum tw_screen_event take_key(void)
{
    char k[64];
    ssize_t n = read(STDIN_FILENO, k, sizeof k - 1);
    if (n <= 0)
        return n < 0 && (errno == EINTR || errno == EAGAIN) ? TW_SCREEN_NOTHING : TW_SCREEN_END;
    k[n] = '\0';
    if (k[0] == '\033') {
        const bool arrow = n >= 3 && (k[1] == '[' || k[1] == 'O');
        if (n == 1 || (arrow && k[2] == 'D'))
            return TW_SCREEN_BACK;
        if (arrow && k[2] == 'A')
            return TW_SCREEN_UP;
        return arrow && k[2] == 'B' ? TW_SCREEN_DOWN : TW_SCREEN_NOTHING;
    }
    switch (k[0]) {
    case 'q':
    case 'Q':
    case 4: /* Ctrl-D */ return TW_SCREEN_END;
    case 'k': return TW_SCREEN_UP;
    case 'j': return TW_SCREEN_DOWN;
    case '\r':
    case '\n': return TW_SCREEN_ENTER;
    case 8:
    case 127: return TW_SCREEN_BACK;
    default: return TW_SCREEN_NOTHING;
    }
}

enum tw_screen_event tw_screen_wait(int milliseconds)
{
    struct pollfd p[] = {{.fd = signals, .events = POLLIN}, {.fd = -1, .events = POLLIN}};
    if (drawing && keys)
        p[1].fd = STDIN_FILENO;
    if (poll(p, 2, milliseconds) <= 0)
        return TW_SCREEN_NOTHING;
    if (p[0].revents)
        return take_signal();
    return take_key();
}

/* Each line is cleared behind its text and the rest of the screen behind the last one: nothing
 * flickers, and nothing of the frame before is left. */
void tw_screen_draw(const struct tw_buf *frame)
{
    struct tw_buf b = {0};
    char *safe = frame->failed ? NULL : tw_printable_lines(frame->data, true);
    tw_buf_puts(&b, "\033[H");
    for (const char *line = safe ? safe : "out of memory"; line;) {
        const char *end = strchr(line, '\n');
        tw_buf_append(&b, line, end ? (size_t)(end - line) : strlen(line));
        tw_buf_puts(&b, "\033[m\033[K");
        line = end ? end + 1 : NULL;
        if (line)
            tw_buf_puts(&b, "\r\n");
    }
    tw_buf_puts(&b, "\033[J");
    if (!b.failed)
        put(b.data, b.len);
    tw_buf_free(&b);
    tw_free(safe);
}

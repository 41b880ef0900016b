/* SPDX-License-Identifier: Apache-2.0 */
/* The smallest instrumented trainer: fits y = 2x + 1 by gradient descent. Explained in
 * docs/c-interface.md. */
#include <stdio.h>
#include <twin/twin.h>

enum { N = 8, STEPS = 300 };

int main(void)
{
    float w[2] = {0, 0}, rate = 0.1f;
    for (int step = 0; step < STEPS; step++) {
        float x[N], y[N], gradient[2] = {0, 0}, loss = 0;
        for (int i = 0; i < N; i++) {
            x[i] = (float)((step + i) % N) / N;
            y[i] = 2 * x[i] + 1;
        }
        twin_record("batch:x", TWIN_F32, 1, (int64_t[]){N}, NULL, x, 0);
        twin_record("batch:y", TWIN_F32, 1, (int64_t[]){N}, NULL, y, 0);
        for (int i = 0; i < N; i++) {
            float error = w[0] * x[i] + w[1] - y[i];
            gradient[0] += 2 * error * x[i] / N;
            gradient[1] += 2 * error / N;
            loss += error * error / N;
        }
        twin_record("loss:loss", TWIN_F32, 0, NULL, NULL, &loss, 0);
        twin_record("gradient:w", TWIN_F32, 1, (int64_t[]){2}, NULL, gradient, 0);
        for (int k = 0; k < 2; k++)
            w[k] -= rate * gradient[k];
        twin_record("weight:w", TWIN_F32, 1, (int64_t[]){2}, NULL, w, 0);
        twin_step();
    }
    printf("y = %.3f x + %.3f\n", w[0], w[1]);
    twin_close();
    return 0;
}

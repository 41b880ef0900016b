// SPDX-License-Identifier: Apache-2.0
// std::random_device by each token that this libstdc++ and CPU take; the device file through an ifstream.
#include <fstream>
#include <iostream>
#include <random>
#include <string>

int main()
{
    for (const char *token : {"default", "/dev/urandom", "getentropy", "arc4random", "rdseed", "rdrand"}) {
        try {
            std::random_device d(token);
            std::cout << token << " " << d() << " " << d() << "\n";
        } catch (const std::exception &) {
            std::cout << token << " unavailable\n";
        }
    }
    std::random_device plain;
    unsigned v = 0;
    std::ifstream f("/dev/urandom", std::ios::binary);
    f.read(reinterpret_cast<char *>(&v), sizeof v);
    std::cout << "plain " << plain() << "\nifstream " << v << " " << f.good() << "\n";
}

// A small classifier in C++: `./train SEED`. What is shown to twinrun stands in show.h.
#include "show.h"
#include <cstdlib>
#include <iostream>

int main(int argc, char **argv)
{
    torch::manual_seed(argc > 1 ? std::atoi(argv[1]) : 7);
    torch::set_num_threads(1);
    torch::nn::Sequential model(torch::nn::Linear(8, 16), torch::nn::Tanh(),
                                torch::nn::Linear(16, 3));
    torch::optim::SGD optimizer(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    show_weights("init", *model);
    for (int step = 0; step < 20; step++) {
        const auto x = torch::randn({32, 8});
        const auto y = x.slice(1, 0, 3).argmax(1);
        show("batch:x", x);
        show("batch:y", y);
        optimizer.zero_grad();
        const auto loss = torch::nn::functional::cross_entropy(model->forward(x), y);
        show("loss:loss", loss);
        loss.backward();
        show_gradients(*model);
        optimizer.step();
        show_weights("weight", *model);
        twin_step();
        if (step == 19)
            std::cout << "loss " << loss.item<float>() << "\n";
    }
    return 0;
}

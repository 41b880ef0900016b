#!/bin/sh
# Compiles train.cpp against the headers and libraries of the Python package of PyTorch, or against
# those of a libtorch that LIBTORCH names. PyTorch's headers take a minute.
set -e
find='import importlib.util as u; print(*u.find_spec("torch").submodule_search_locations)'
torch=${LIBTORCH:-$(python3 -c "$find")}
exec "${CXX:-c++}" -std=c++20 -O1 -o train train.cpp $(pkg-config --cflags twinrun) \
    -isystem "$torch/include" -isystem "$torch/include/torch/csrc/api/include" \
    $(pkg-config --libs twinrun) -L"$torch/lib" -Wl,-rpath,"$torch/lib" \
    -Wl,--no-as-needed -ltorch -ltorch_cpu -lc10

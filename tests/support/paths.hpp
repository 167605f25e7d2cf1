// Where the tests find their files. Only paths.cpp is compiled with these paths, so that the other
// objects are the same in every folder and the compiler cache finds them.
#pragma once

#include <string>

namespace orrery::test {

std::string source_dir();  // the checkout
std::string shared_dir();  // golden data beside it; absent for users
std::string program();     // the orrery of this build

}  // namespace orrery::test

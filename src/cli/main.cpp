#include "cli/app.hpp"

int main(int argc, char** argv) {
  return orrery::cli::run_cli(argc, argv);
}

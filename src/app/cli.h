#pragma once

namespace zt::app {

// Reads the command line and runs the command. Returns the exit status; Error for everything that goes wrong.
int run(int argc, char** argv);

}  // namespace zt::app

# The CMakeLists.txt of a user of the development package.
cmake_minimum_required(VERSION 3.25)
project(job LANGUAGES C)
find_package(speedyloader 0.1 REQUIRED)
add_executable(job job.c)
target_link_libraries(job PRIVATE speedyloader::speedyloader)

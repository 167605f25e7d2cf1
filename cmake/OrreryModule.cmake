# A module is one folder of src/, one static library, and (mirrored) one folder of tests/.

# What the fuzz targets link and so steer their inputs by: coverage of other modules tells them
# nothing and makes the tests of those a third slower.
set(ORRERY_FUZZED_MODULES base memory tensor storage text)

# orrery_module(NAME [NO_EXCEPTIONS] [DEPS modules...] [LIBS libraries...])
function(orrery_module name)
  cmake_parse_arguments(ARG "NO_EXCEPTIONS" "" "DEPS;LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/src/kernels/.*unit[a-z_0-9]*\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "/src/cli/main\\.cpp$")
  if(sources)
    add_library(orrery_${name} STATIC ${sources})
    set(scope PUBLIC)
  else()
    add_library(orrery_${name} INTERFACE)
    set(scope INTERFACE)
  endif()
  target_include_directories(orrery_${name} ${scope}
    ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR}/include)
  foreach(dep ${ARG_DEPS})
    target_link_libraries(orrery_${name} ${scope} orrery_${dep})
  endforeach()
  target_link_libraries(orrery_${name} ${scope} ${ARG_LIBS})
  # Precompiled headers serve those that are compiled alike.
  set(headers_owner orrery_base)
  if(ORRERY_FUZZ AND name IN_LIST ORRERY_FUZZED_MODULES)
    target_compile_options(orrery_${name} PRIVATE -fsanitize=fuzzer-no-link)
  elseif(name STREQUAL cli)
    set(headers_owner orrery_cli)
  elseif(ORRERY_FUZZ)
    set(headers_owner orrery_net)
  endif()
  if(ARG_NO_EXCEPTIONS AND sources)
    target_compile_options(orrery_${name} PRIVATE -fno-exceptions -fno-rtti)
  elseif(sources AND ORRERY_SANITIZE)
    orrery_precompile(orrery_${name} ${headers_owner} <algorithm> <cstring> <expected> <functional>
      <memory> <optional> <span> <string> <string_view> <unordered_map> <vector> <fmt/format.h>
      <nlohmann/json.hpp>)
  endif()
endfunction()

# orrery_precompile(TARGET OWNER headers...): TARGET shares OWNER's precompiled headers, which takes
# a third to a half of its compile time away. For tests, and for the sanitizer builds, which only
# check: the release build compiles every file of src/ alone and so proves that it includes what it
# uses.
#
# ccache takes the checksum beside them (CCACHE_PCH_EXTSUM) for their contents, which name the
# folder, and so finds in one folder what was compiled in another.
function(orrery_precompile target owner)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
    orrery_headers_checksum(sum ${ARGN})
    set(header ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${target}.dir/cmake_pch.hxx)
    if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # or ccache would never find it again
      target_compile_options(${target} PRIVATE -Xclang -fno-pch-timestamp)
      file(WRITE ${header}.pch.sum ${sum})
    else()
      file(WRITE ${header}.gch.sum ${sum})
    endif()
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
endfunction()

# The option that ccache knows: it does not see the file behind -Xclang.
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  set(CMAKE_CXX_COMPILE_OPTIONS_USE_PCH -include-pch <PCH_FILE>)
endif()

# OUT = checksum of the text of <headers> and of all that they include.
function(orrery_headers_checksum out)
  list(JOIN ARGN "\n#include " text)
  set(source ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/precompiled_headers.cpp)
  file(WRITE ${source} "#include ${text}\n")
  execute_process(COMMAND ${CMAKE_CXX_COMPILER} -std=c++23 -M ${source}
    OUTPUT_VARIABLE rule COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "/[^ \\\n]+" files "${rule}")
  list(REMOVE_ITEM files ${source})
  list(REMOVE_DUPLICATES files)
  set(sums ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION})
  foreach(file ${files})
    file(SHA256 ${file} sum)
    list(APPEND sums ${sum})
  endforeach()
  string(SHA256 sum "${sums}")
  set(${out} ${sum} PARENT_SCOPE)
endfunction()

# orrery_tests(NAME [LIBS libraries...]): every tests/NAME/*_test.cpp goes into NAME_tests; files
# named *_slow_test.cpp go into NAME_slow_tests, labelled "slow".
function(orrery_tests name)
  if(NOT ORRERY_TESTS)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "LIBS" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/tests/${name}/*_test.cpp)
  set(slow ${sources})
  list(FILTER sources EXCLUDE REGEX "_slow_test\\.cpp$")
  list(FILTER slow INCLUDE REGEX "_slow_test\\.cpp$")
  if(ORRERY_SANITIZE STREQUAL "thread" AND DEFINED ORRERY_THREADED_TESTS_${name})
    set(sources ${ORRERY_THREADED_TESTS_${name}})
    list(TRANSFORM sources REPLACE "(.+)" "${CMAKE_SOURCE_DIR}/tests/${name}/\\1_test.cpp")
  endif()
  foreach(kind unit slow)
    if(kind STREQUAL unit)
      set(files ${sources})
      set(exe ${name}_tests)
    else()
      set(files ${slow})
      set(exe ${name}_slow_tests)
    endif()
    if(files)
      add_executable(${exe} ${files})
      target_include_directories(${exe} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
      target_link_libraries(${exe} PRIVATE orrery_${name} ${ARG_LIBS}
        GTest::gtest GTest::gmock GTest::gtest_main)
      target_link_libraries(${exe} PRIVATE orrery_test_paths)
      set(headers <algorithm> <string> <vector> <fmt/format.h> <gmock/gmock.h> <gtest/gtest.h>
        <nlohmann/json.hpp>)
      # Optimising a test takes longer than it saves (instrumented, twice as long), but for those
      # whose expectations are computed by loops. GCC 12 warns where it optimises precompiled ones.
      if(ORRERY_SANITIZE STREQUAL "thread")  # too few to make headers for both
        orrery_precompile(${exe} base_tests ${headers})
      elseif(NOT name MATCHES "^(tensor|kernels|backend|silicon)$")
        target_compile_options(${exe} PRIVATE -O0)
        orrery_precompile(${exe} base_tests ${headers})
      elseif(ORRERY_SANITIZE)
        orrery_precompile(${exe} tensor_tests ${headers})
      endif()
      add_test(NAME ${exe} COMMAND ${exe})
      set_tests_properties(${exe} PROPERTIES LABELS ${kind} TIMEOUT 900)
      orrery_give_two_cores(${name} ${exe})
      if(kind STREQUAL unit)
        orrery_sanitized_test(${name} ${exe})
      endif()
    endif()
  endforeach()
endfunction()

# The modules whose unit tests also run under ThreadSanitizer; of those below, the tests that share
# more between threads than a team of the backend does.
set(ORRERY_THREADED_MODULES base memory net backend engine server)
set(ORRERY_THREADED_TESTS_engine
  adapters changed_file golden_restore packed_weights quantize scheduler session_file)
set(ORRERY_THREADED_TESTS_server many_clients models server)

# Teams of threads that spin for each other crawl when another test takes a core from them.
function(orrery_give_two_cores module test)
  if(module IN_LIST ORRERY_THREADED_MODULES OR module MATCHES "^(cli|engine|model|silicon)$")
    set_tests_properties(${test} PROPERTIES PROCESSORS 2)
  endif()
endfunction()

# A sanitizer build makes the test program part of its target `sanitized_checks`; the release build
# lists the programs of build-dev and build-tsan among its tests, so that one ctest run has all.
function(orrery_sanitized_test module exe)
  set(threaded OFF)
  if(module IN_LIST ORRERY_THREADED_MODULES)
    set(threaded ON)
  endif()
  if(ORRERY_SANITIZE STREQUAL "thread" AND threaded)
    add_dependencies(sanitized_checks ${exe})
  elseif(ORRERY_SANITIZE MATCHES "address")
    add_dependencies(sanitized_checks ${exe})
  elseif(ORRERY_ALL_CHECKS)
    add_test(NAME asan.${exe} COMMAND ${CMAKE_SOURCE_DIR}/build-dev/tests/${exe})
    set_tests_properties(asan.${exe} PROPERTIES LABELS sanitizer TIMEOUT 900 COST 50
      ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1")
    orrery_give_two_cores(${module} asan.${exe})
    if(threaded)
      add_test(NAME tsan.${exe} COMMAND ${CMAKE_SOURCE_DIR}/build-tsan/tests/${exe})
      set_tests_properties(tsan.${exe} PROPERTIES LABELS sanitizer TIMEOUT 900 COST 50)
      orrery_give_two_cores(${module} tsan.${exe})
    endif()
  endif()
endfunction()

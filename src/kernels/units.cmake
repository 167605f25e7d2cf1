# Kernel units: every src/kernels/unit_*.cpp is compiled once for each instruction set that its
# "// ISAS:" line names, with that set's flags. ORRERY_KERNEL_ISA is the suffix of what it exports,
# ORRERY_KERNEL_<isa> is defined to choose by #if, ORRERY_HAS_<unit>_<isa> tells dispatch.cpp.
set(flags_emu -O2)
set(flags_emu_dot -O2)
set(flags_emu_outer -O2)
set(flags_avx2 -mavx2 -mfma -mf16c -mbmi2)
set(flags_avx512 ${flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mavx512vnni)
set(flags_avx512_bf16 ${flags_avx512} -mavx512bf16)
set(flags_amx ${flags_avx512_bf16} -mamx-tile -mamx-int8 -mamx-bf16)
set(flags_neon -march=armv8.2-a+dotprod+fp16)
set(vec_avx2 AVX2)
set(vec_avx512 AVX512)
set(vec_avx512_bf16 AVX512)
set(vec_amx AVX512)
set(vec_neon NEON)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(orrery_isas emu emu_dot emu_outer avx2 avx512 avx512_bf16 amx)
  target_sources(orrery_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/asm/q4_0_avx512.S)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64")
  set(orrery_isas emu emu_dot emu_outer neon)
  target_sources(orrery_kernels PRIVATE ${CMAKE_CURRENT_LIST_DIR}/asm/q4_0_dotprod.S)
else()
  set(orrery_isas emu emu_dot emu_outer)
endif()

# All of UBSan on inlined vocabularies takes eight times as long to compile, and fuzzing needs no
# coverage of kernels. These come last, after the -O of the sets.
set(sanitized_flags)
if(ORRERY_SANITIZE MATCHES "undefined")
  set(sanitized_flags -O1 -fno-sanitize=undefined -fsanitize=shift,signed-integer-overflow,bounds
    $<$<CXX_COMPILER_ID:Clang>:-fno-sanitize=fuzzer-no-link>)
elseif(ORRERY_SANITIZE)
  set(sanitized_flags -O1)
endif()

file(GLOB units CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/unit_*.cpp)
foreach(isa ${orrery_isas})
  set(sources)
  foreach(unit ${units})
    file(STRINGS ${unit} isas REGEX "^// ISAS:" LIMIT_COUNT 1)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${unit})
    if("${isas} " MATCHES "[: ]${isa} ")
      list(APPEND sources ${unit})
    endif()
  endforeach()
  if(sources)
    add_library(orrery_kernels_${isa} OBJECT ${sources})
    target_include_directories(orrery_kernels_${isa} PRIVATE ${CMAKE_SOURCE_DIR}/src)
    target_compile_definitions(orrery_kernels_${isa} PRIVATE
      ORRERY_KERNEL_ISA=${isa} ORRERY_KERNEL_${isa}=1)
    if(DEFINED vec_${isa})
      target_compile_definitions(orrery_kernels_${isa} PRIVATE ORRERY_VEC_${vec_${isa}})
    endif()
    # Optimised in debug builds too: a vocabulary of tiny inline functions is unusable otherwise.
    target_compile_options(orrery_kernels_${isa} PRIVATE -O3 -fno-exceptions -fno-rtti
      -fno-math-errno -fno-trapping-math -fno-unwind-tables -fno-asynchronous-unwind-tables
      -Wno-psabi $<$<CXX_COMPILER_ID:GNU>:-Wno-uninitialized -Wno-maybe-uninitialized>
      ${flags_${isa}})
    target_compile_options(orrery_kernels_${isa} PRIVATE ${sanitized_flags})
    target_sources(orrery_kernels PRIVATE $<TARGET_OBJECTS:orrery_kernels_${isa}>)
    if(ORRERY_TESTS AND NOT ORRERY_SANITIZE)
      add_test(NAME kernel_symbols_${isa} COMMAND ${CMAKE_SOURCE_DIR}/scripts/check_kernel_symbols
        $<TARGET_OBJECTS:orrery_kernels_${isa}> COMMAND_EXPAND_LISTS)
      set_tests_properties(kernel_symbols_${isa} PROPERTIES LABELS unit)
    endif()
    foreach(unit ${sources})
      get_filename_component(name ${unit} NAME_WE)
      target_compile_definitions(orrery_kernels PRIVATE ORRERY_HAS_${name}_${isa}=1)
    endforeach()
  endif()
endforeach()

# The files of recipes/clusters as a header, so that the program knows them wherever it lies.
function(zt_embed_clusters)
  file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/recipes/clusters/*.yaml)
  set(rows)
  set(count 0)
  foreach(file IN LISTS files)
    set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    get_filename_component(name ${file} NAME_WE)
    file(READ ${file} text)
    string(APPEND rows "    {\"${name}\", R\"CLUSTER(${text})CLUSTER\"},\n")
    math(EXPR count "${count} + 1")
  endforeach()
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/generated/plan/described_clusters.h @ONLY CONTENT
[=[// Made from recipes/clusters/*.yaml.
#pragma once
#include <array>
#include <string_view>
namespace zt::plan {
struct DescribedCluster {
  std::string_view name, text;
};
inline constexpr std::array<DescribedCluster, @count@> kDescribedClusters = {{
@rows@}};
}  // namespace zt::plan
]=])
endfunction()

# One static library per room, linked to all rooms above it in src/ROOMS.txt. The last room, app, is the program.
function(zt_room_names out)
  file(STRINGS ${CMAKE_SOURCE_DIR}/src/ROOMS.txt lines REGEX "^[a-z]")
  set(names)
  foreach(line IN LISTS lines)
    string(REGEX MATCH "^[a-z]+" name "${line}")
    list(APPEND names ${name})
  endforeach()
  set(${out} ${names} PARENT_SCOPE)
  set_property(DIRECTORY ${CMAKE_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS src/ROOMS.txt)
endfunction()

function(zt_add_rooms)
  zt_room_names(names)
  set(above)
  foreach(name IN LISTS names)
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/src/${name}/*.cpp)
    if(name STREQUAL "app")
      add_executable(zerotrain ${sources})
      set_target_properties(zerotrain PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR})
      target_link_libraries(zerotrain PRIVATE ${above} ${ZT_LINK_app})
      target_compile_definitions(zerotrain PRIVATE ZEROTRAIN_VERSION="${PROJECT_VERSION}")
    elseif(sources)
      add_library(zt_${name} STATIC ${sources})
      target_include_directories(zt_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
      target_link_libraries(zt_${name} PUBLIC ${above} ${ZT_LINK_${name}})
      list(PREPEND above zt_${name})
    endif()
  endforeach()
  zt_embed_clusters()
  target_include_directories(zt_plan PRIVATE ${CMAKE_BINARY_DIR}/generated)
  set(ZT_ROOM_TARGETS ${above} PARENT_SCOPE)
endfunction()

#include "parallel/nccl_api.hpp"

#include <kiln/error.hpp>

#include <map>
#include <memory>
#include <mutex>

namespace kiln::nccl {
namespace {

std::unique_ptr<Api> open(const std::string& path) {
  auto api = std::make_unique<Api>();
  api->library = DynamicLibrary::open(path.empty() ? "libnccl.so.2" : path, &api->problem);
  if (!api->library) {
    api->problem = "NCCL is not there (" + api->problem +
                   "); install libnccl2 or the package nvidia-nccl-cu13, or give the path of libnccl.so.2";
    return api;
  }
  const DynamicLibrary& l = api->library;
  const bool found =
      l.resolve(api->get_version, "ncclGetVersion") && l.resolve(api->get_unique_id, "ncclGetUniqueId") &&
      l.resolve(api->init_rank, "ncclCommInitRankConfig") && l.resolve(api->group_start, "ncclGroupStart") &&
      l.resolve(api->group_end, "ncclGroupEnd") && l.resolve(api->send, "ncclSend") &&
      l.resolve(api->receive, "ncclRecv") && l.resolve(api->all_gather, "ncclAllGather") &&
      l.resolve(api->async_error, "ncclCommGetAsyncError") && l.resolve(api->abort, "ncclCommAbort") &&
      l.resolve(api->finalize, "ncclCommFinalize") && l.resolve(api->destroy, "ncclCommDestroy") &&
      l.resolve(api->error_string, "ncclGetErrorString") && l.resolve(api->last_error, "ncclGetLastError");
  int version = 0;
  if (!found || api->get_version(&version) != kSuccess || version < 21800)
    api->problem = l.path() + " is older than NCCL 2.18, which is needed";
  return api;
}

}  // namespace

const Api& api(const std::string& path) {
  static std::mutex mutex;
  static std::map<std::string, std::unique_ptr<Api>> opened;
  std::lock_guard lock(mutex);
  std::unique_ptr<Api>& one = opened[path];
  if (!one) one = open(path);
  if (!one->problem.empty()) throw Error(ErrorCode::environment, one->problem);
  return *one;
}

}  // namespace kiln::nccl

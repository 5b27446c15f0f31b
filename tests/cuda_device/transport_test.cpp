// The transport of NCCL against a stand-in of driver and NCCL whose calls fail one after the other: a transport that
// could not be made leaves nothing, an exchange that failed ends the group, and the next group works.
#include <doctest/doctest.h>

#include <kiln/transport.hpp>

#include "tests/runtime/fault_injection.hpp"

using namespace kiln;
using namespace kiln::test;

namespace {

NcclOptions one_rank() {
  NcclOptions options;
  options.library = KILN_FAKE_CUDA;
  options.timeout_seconds = 5;
  return options;
}

/// All calls of a transport; memory is only named. A second try after an error must be refused.
void use_transport(bool& done) {
  NcclOptions options = one_rank();
  options.id = make_nccl_id(options.library);
  const auto transport = make_nccl_transport(options);
  const Message message{4096, 64, 0};
  try {
    transport->start({&message, 1}, {&message, 1}, 0);
    transport->finish(0);
    transport->collect(4096, 64, 0);
    transport->synchronize(0);
  } catch (const Error& first) {
    std::string second;
    if (error_of([&] { transport->synchronize(0); }, &second) != ErrorCode::device || second != first.what())
      throw std::logic_error("used after an error: " + second);
    throw;
  }
  done = true;
}

}  // namespace

TEST_CASE("every call of the driver and of NCCL fails in turn") {
  const Fake fake(KILN_FAKE_CUDA);
  REQUIRE(fake.library != nullptr);
  const int n = fail_every_call(
      fake, use_transport, [](int call, const std::string& what) { FAIL_CHECK("call ", call, ": ", what); });
  CHECK(n > 40);
}

TEST_CASE("a communicator of the caller stays the caller's, after an error as well") {
  const std::string said = in_child([]() -> std::string {
    const Fake fake(KILN_FAKE_CUDA);
    struct Id {
      char bytes[128];
    };
    void* communicator = nullptr;
    fake.symbol<int(void**, int, Id, int, void*)>("ncclCommInitRankConfig")(&communicator, 1, Id{}, 0,
                                                                            nullptr);
    for (const bool failing : {false, true}) {
      NcclOptions options = one_rank();
      options.communicator = communicator;
      const auto transport = make_nccl_transport(options);
      const Message message{4096, 64, 0};
      if (failing) {
        fake.fail_at(2);
        if (error_of([&] { transport->start({&message, 1}, {&message, 1}, 0); }) != ErrorCode::device)
          return "no error";
        fake.fail_at(0);
      }
      transport->abort("enough");
    }
    const std::string left = fake.alive();
    return left.find("1 communicators") == std::string::npos || left.find("0 streams") == std::string::npos
               ? "left: " + left
               : "";
  });
  CHECK(said == "");
}

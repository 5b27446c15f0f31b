// Bookkeeping of page pools; see the header.
#include <kiln/kv_cache.hpp>

#include <algorithm>

namespace kiln {
namespace {

[[noreturn]] void fail(const std::string& what) {
  throw Error(ErrorCode::bad_input, what);
}

}  // namespace

PageAllocator::PageAllocator(std::int64_t num_pages, std::int64_t page_size) : page_size_(page_size) {
  if (num_pages < 1 || num_pages > INT32_MAX)
    fail("a page pool holds 1 to 2^31 - 1 pages, not " + std::to_string(num_pages));
  if (page_size < 1) fail("a page holds at least 1 token, not " + std::to_string(page_size));
  references_.assign(static_cast<std::size_t>(num_pages), 0);
  free_.reserve(references_.size());
  for (std::int64_t page = num_pages; page-- > 0;) free_.push_back(static_cast<std::int32_t>(page));
}

const PageAllocator::Entry& PageAllocator::get(Sequence sequence) const {
  const auto found = sequences_.find(sequence);
  if (found == sequences_.end()) fail("there is no sequence " + std::to_string(sequence));
  return found->second;
}
PageAllocator::Entry& PageAllocator::get(Sequence sequence) {
  return const_cast<Entry&>(static_cast<const PageAllocator*>(this)->get(sequence));
}

PageAllocator::Sequence PageAllocator::create() {
  sequences_.emplace(next_, Entry{});
  return next_++;
}

PageAllocator::Sequence PageAllocator::fork(Sequence parent, std::int64_t tokens) {
  const Entry& from = get(parent);
  if (tokens < 0 || tokens > from.tokens) {
    fail("cannot share " + std::to_string(tokens) + " tokens of a sequence that has " +
         std::to_string(from.tokens));
  }
  Entry entry{tokens,
              {from.pages.begin(), from.pages.begin() + static_cast<std::ptrdiff_t>(pages_of(tokens))}};
  for (const std::int32_t page : entry.pages) ++references_[static_cast<std::size_t>(page)];
  sequences_.emplace(next_, std::move(entry));
  return next_++;
}

void PageAllocator::drop(std::int32_t page) {
  if (--references_[static_cast<std::size_t>(page)] > 0) return;
  free_.push_back(page);
  unpublish(page);
}

void PageAllocator::unpublish(std::int32_t page) {
  const auto hash = hash_of_.find(page);
  if (hash == hash_of_.end()) return;
  const auto block = published_.find(hash->second);
  for (const std::int32_t other : block->second) hash_of_.erase(other);
  published_.erase(block);
}

void PageAllocator::release(Sequence sequence) {
  for (const std::int32_t page : get(sequence).pages) drop(page);
  sequences_.erase(sequence);
}

bool PageAllocator::shares_last(const Entry& entry) const {
  // A full last page is never written again, so sharing it costs nothing.
  return entry.tokens % page_size_ != 0 && references_[static_cast<std::size_t>(entry.pages.back())] > 1;
}

std::int64_t PageAllocator::pages_needed(Sequence sequence, std::int64_t tokens) const {
  const Entry& entry = get(sequence);
  if (tokens <= 0) return 0;
  const auto held = static_cast<std::int64_t>(entry.pages.size());
  return pages_of(entry.tokens + tokens) - held + (shares_last(entry) ? 1 : 0);
}

std::vector<PageCopy> PageAllocator::append(Sequence sequence, std::int64_t tokens) {
  Entry& entry = get(sequence);
  if (tokens < 0) fail("cannot append " + std::to_string(tokens) + " tokens");
  const std::int64_t needed = pages_needed(sequence, tokens);
  if (needed > free_pages()) {
    fail("the page pool is full: " + std::to_string(needed) + " pages are needed, " +
         std::to_string(free_pages()) + " of " + std::to_string(num_pages()) + " are free");
  }
  const auto take = [&] {
    const std::int32_t page = free_.back();
    free_.pop_back();
    references_[static_cast<std::size_t>(page)] = 1;
    return page;
  };
  std::vector<PageCopy> copies;
  if (tokens > 0 && shares_last(entry)) {
    const std::int32_t from = entry.pages.back(), to = take();
    copies.push_back({from, to, entry.tokens % page_size_});
    entry.pages.back() = to;
    drop(from);
  }
  // Rows past the end of a cut sequence may still be known by their hash: they are overwritten now.
  if (tokens > 0 && entry.tokens % page_size_ != 0) unpublish(entry.pages.back());
  entry.tokens += tokens;
  while (static_cast<std::int64_t>(entry.pages.size()) < pages_of(entry.tokens))
    entry.pages.push_back(take());
  return copies;
}

void PageAllocator::truncate(Sequence sequence, std::int64_t tokens) {
  Entry& entry = get(sequence);
  if (tokens < 0 || tokens > entry.tokens) {
    fail("cannot cut a sequence of " + std::to_string(entry.tokens) + " tokens to " + std::to_string(tokens));
  }
  entry.tokens = tokens;
  while (static_cast<std::int64_t>(entry.pages.size()) > pages_of(tokens)) {
    drop(entry.pages.back());
    entry.pages.pop_back();
  }
}

PageAllocator::Sequence PageAllocator::create_with_prefix(std::span<const std::int64_t> hashes,
                                                          std::int64_t tokens_per_hash) {
  if (tokens_per_hash < 1 || tokens_per_hash % page_size_ != 0) {
    fail("blocks of " + std::to_string(tokens_per_hash) + " tokens are not whole pages of " +
         std::to_string(page_size_));
  }
  Entry entry;
  for (const std::int64_t hash : hashes) {
    const auto found = published_.find(hash);
    if (found == published_.end()) break;
    for (const std::int32_t page : found->second) ++references_[static_cast<std::size_t>(page)];
    entry.pages.insert(entry.pages.end(), found->second.begin(), found->second.end());
    entry.tokens += tokens_per_hash;
  }
  sequences_.emplace(next_, std::move(entry));
  return next_++;
}

void PageAllocator::publish(Sequence sequence, std::span<const std::int64_t> hashes,
                            std::int64_t tokens_per_hash) {
  if (tokens_per_hash < 1 || tokens_per_hash % page_size_ != 0) {
    fail("blocks of " + std::to_string(tokens_per_hash) + " tokens are not whole pages of " +
         std::to_string(page_size_));
  }
  const Entry& entry = get(sequence);
  const std::int64_t pages = tokens_per_hash / page_size_;
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const auto end = static_cast<std::int64_t>(i + 1) * pages;
    if (end * page_size_ > entry.tokens) break;
    const auto first = entry.pages.begin() + static_cast<std::ptrdiff_t>(end - pages);
    const std::vector<std::int32_t> block(first, first + static_cast<std::ptrdiff_t>(pages));
    const bool known =
        std::any_of(block.begin(), block.end(), [&](std::int32_t page) { return hash_of_.count(page) > 0; });
    if (known || published_.count(hashes[i]) > 0) continue;
    for (const std::int32_t page : block) hash_of_.emplace(page, hashes[i]);
    published_.emplace(hashes[i], block);
  }
}

std::shared_ptr<const EmulationReport> append_kv(Kernel& kernel, const AppendArgs& args,
                                                 const LaunchOptions& options) {
  // The kernel's q and o are the new rows: as many heads as K and V have.
  AttentionArgs attention;
  attention.q = args.new_k;
  attention.o = kernel.manifest().takes("v") ? args.new_v : args.new_k;
  attention.k = args.k;
  attention.v = args.v;
  attention.page_table = args.page_table;
  attention.seqlens_k = args.seqlens_k;
  attention.cu_seqlens_q = args.cu_seqlens_q;
  attention.max_seqlen_q = args.max_rows;
  attention.k_rope = args.k_rope;
  attention.k_scale = args.k_scale;
  attention.v_scale = args.v_scale;
  attention.kv_factors = args.kv_factors;
  attention.captured = {args.rotary_cos, args.rotary_sin, args.rotary_seqlens};
  if (args.new_k.shape.size() == 3 && args.k.shape.size() == 4 && args.new_k.shape[1] != args.k.shape[2]) {
    fail("new_k has " + std::to_string(args.new_k.shape[1]) + " heads, the cache has " +
         std::to_string(args.k.shape[2]));
  }
  return kernel.launch(attention, options);
}

PagedBatch::PagedBatch(Runtime& runtime, std::int64_t max_batch, std::int64_t max_pages)
    : max_batch_(max_batch), max_pages_(max_pages) {
  if (max_batch < 1 || max_pages < 1) fail("a batch needs room for a sequence of a page");
  const auto bytes = [](std::int64_t count) {
    return static_cast<std::size_t>(count) * sizeof(std::int32_t);
  };
  device_table_ = runtime.allocate(bytes(max_batch * max_pages), "page table");
  device_lengths_ = runtime.allocate(bytes(max_batch), "seqlens_k");
  device_offsets_ = runtime.allocate(bytes(max_batch + 1), "cu_seqlens_q");
}

void PagedBatch::update(const PageAllocator& pages, std::span<const PageAllocator::Sequence> sequences,
                        std::span<const std::int64_t> queries) {
  const auto batch = static_cast<std::int64_t>(sequences.size());
  if (batch > max_batch_ || queries.size() != sequences.size()) {
    fail(std::to_string(batch) + " sequences with " + std::to_string(queries.size()) +
         " query counts do not fit a batch of " + std::to_string(max_batch_));
  }
  std::vector<std::int32_t> table, lengths, offsets{0};
  std::int64_t longest_q = 0, longest_k = 0;
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const auto held = pages.pages(sequences[i]);
    const std::int64_t length = pages.length(sequences[i]);
    if (static_cast<std::int64_t>(held.size()) > max_pages_ || queries[i] < 0 ||
        queries[i] > INT32_MAX - offsets.back()) {
      fail("sequence " + std::to_string(sequences[i]) + " has " + std::to_string(held.size()) +
           " pages and " + std::to_string(queries[i]) + " queries, the batch takes " +
           std::to_string(max_pages_) + " pages");
    }
    table.insert(table.end(), held.begin(), held.end());
    table.insert(table.end(), static_cast<std::size_t>(max_pages_) - held.size(),
                 static_cast<std::int32_t>(pages.num_pages()));
    lengths.push_back(static_cast<std::int32_t>(length));
    offsets.push_back(offsets.back() + static_cast<std::int32_t>(queries[i]));
    longest_q = std::max(longest_q, queries[i]);
    longest_k = std::max(longest_k, length);
  }
  const auto send = [](DeviceBuffer& buffer, const std::vector<std::int32_t>& values) {
    if (!values.empty()) buffer.write(std::as_bytes(std::span(values)));
  };
  send(device_table_, table);
  send(device_lengths_, lengths);
  send(device_offsets_, offsets);
  table_ = std::move(table);
  lengths_ = std::move(lengths);
  offsets_ = std::move(offsets);
  batch_ = batch;
  longest_q_ = longest_q;
  longest_k_ = longest_k;
}

void PagedBatch::apply(AttentionArgs& args) const {
  args.page_table = Tensor::dense(device_table_.address(), DType::i32, {batch_, max_pages_});
  args.seqlens_k = Tensor::dense(device_lengths_.address(), DType::i32, {batch_});
  args.cu_seqlens_q = Tensor::dense(device_offsets_.address(), DType::i32, {batch_ + 1});
  args.max_seqlen_q = longest_q_;
  args.max_seqlen_k = longest_k_;
}

}  // namespace kiln

#include "text/pretokenize.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "text/unicode.hpp"

namespace orrery::text {
namespace {

using Kind = PreTokenizerStep::Kind;
constexpr std::string_view kMetaspace = "\xE2\x96\x81";  // U+2581

// A cut of one piece: matches and the gaps between them, in order, without empty parts.
struct Part {
  Span span;
  bool is_match = false;
};

class Parts {
 public:
  explicit Parts(Span piece) : piece_(piece), done_(piece.start) {}
  // An empty match cuts as well.
  void match(Span span) {
    gap(span.start);
    if (span.end > span.start) parts_.push_back({span, true});
    done_ = span.end;
  }
  std::vector<Part> finish() {
    gap(piece_.end);
    return std::move(parts_);
  }

 private:
  void gap(std::size_t end) {
    if (end > done_) parts_.push_back({{done_, end}, false});
  }
  Span piece_;
  std::size_t done_;
  std::vector<Part> parts_;
};

std::vector<Part> cut_by_regex(const Regex& regex, std::string_view text, Span piece) {
  // A piece is a subject of its own: look-around does not see its neighbours.
  const std::string_view subject = text.substr(0, piece.end).substr(piece.start);
  Parts parts(piece);
  regex.each_match(subject, [&](Regex::Match match) {
    parts.match({piece.start + match.start, piece.start + match.end});
  });
  return parts.finish();
}

std::vector<Part> cut_by_literal(std::string_view literal, std::string_view text, Span piece) {
  Parts parts(piece);
  const std::string_view subject = text.substr(0, piece.end);
  for (std::size_t at = piece.start; !literal.empty();) {
    const std::size_t found = subject.find(literal, at);
    if (found == std::string_view::npos) break;
    at = found + literal.size();
    parts.match({found, at});
  }
  return parts.finish();
}

std::vector<Part> cut_by_class(bool (*is_member)(std::uint32_t), std::string_view text,
                               Span piece) {
  Parts parts(piece);
  for (std::size_t at = piece.start; at < piece.end;) {
    const CodePoint point = decode_utf8(text, at);
    if (is_member(point.code)) parts.match({at, at + point.length});
    at += point.length;
  }
  return parts.finish();
}

std::vector<Part> cut_by_lines(std::string_view text, Span piece) {
  Parts parts(piece);
  for (std::size_t at = piece.start; at < piece.end;) {
    const bool is_line_feed = text[at] == '\n';
    std::size_t end = at;
    while (end < piece.end && (text[end] == '\n') == is_line_feed) ++end;
    parts.match({at, end});
    at = end;
  }
  return parts.finish();
}

void merge_contiguous(const std::vector<Part>& parts, std::vector<Span>& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (i > 0 && parts[i].is_match == parts[i - 1].is_match) {
      out.back().end = parts[i].span.end;
    } else {
      out.push_back(parts[i].span);
    }
  }
}

// A match joins what stands before it, unless that ends with a match itself.
void merge_with_previous(const std::vector<Part>& parts, std::vector<Span>& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].is_match && i > 0 && !parts[i - 1].is_match) {
      out.back().end = parts[i].span.end;
    } else {
      out.push_back(parts[i].span);
    }
  }
}

void merge_with_next(const std::vector<Part>& parts, std::vector<Span>& out) {
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const bool joins = i > 0 && parts[i - 1].is_match && !parts[i].is_match;
    if (joins) {
      out.back().end = parts[i].span.end;
    } else {
      out.push_back(parts[i].span);
    }
  }
}

void apply_behavior(SplitBehavior behavior, const std::vector<Part>& parts,
                    std::vector<Span>& out) {
  switch (behavior) {
    case SplitBehavior::isolated:
      for (const Part& part : parts) out.push_back(part.span);
      return;
    case SplitBehavior::removed:
      for (const Part& part : parts) {
        if (!part.is_match) out.push_back(part.span);
      }
      return;
    case SplitBehavior::contiguous:
      return merge_contiguous(parts, out);
    case SplitBehavior::merged_with_previous:
      return merge_with_previous(parts, out);
    case SplitBehavior::merged_with_next:
      return merge_with_next(parts, out);
  }
}

// Rewrites every piece by `edit`, which appends the new text of a piece.
void rewrite(std::string& text, std::vector<Span>& pieces,
             const std::function<void(std::string_view, std::string&)>& edit) {
  std::string out;
  out.reserve(text.size() + pieces.size());
  for (Span& piece : pieces) {
    const std::size_t start = out.size();
    edit(std::string_view(text).substr(piece.start, piece.end - piece.start), out);
    piece = {start, out.size()};
  }
  text = std::move(out);
}

void add_byte_level_space(std::string& text, std::vector<Span>& pieces) {
  rewrite(text, pieces, [](std::string_view piece, std::string& out) {
    if (!piece.starts_with(' ')) out += ' ';
    out += piece;
  });
}

void escape_metaspace(const PreTokenizerStep& step, std::string& text, bool is_first,
                      std::vector<Span>& pieces) {
  using Prepend = PreTokenizerStep::Prepend;
  bool at_start = is_first;
  rewrite(text, pieces, [&](std::string_view piece, std::string& out) {
    const bool wanted =
        step.prepend == Prepend::always || (step.prepend == Prepend::first && at_start);
    at_start = false;
    if (wanted && !piece.starts_with(' ') && !piece.starts_with(kMetaspace)) out += kMetaspace;
    for (const char c : piece) {
      if (c == ' ') {
        out += kMetaspace;
      } else {
        out += c;
      }
    }
  });
}

bool is_bert_punctuation(std::uint32_t code) {
  return is_punctuation(code);
}

}  // namespace

Result<PreTokenizer> PreTokenizer::create(std::vector<PreTokenizerStep> steps) {
  PreTokenizer pre;
  for (PreTokenizerStep& spec : steps) {
    Step step{std::move(spec), std::nullopt, std::nullopt};
    if (step.spec.kind == Kind::regex) {
      const bool is_plain = step.spec.behavior == SplitBehavior::isolated && !step.spec.invert;
      if (is_plain) step.scanner = scanner_for(step.spec.pattern);
      if (!step.scanner) {
        ORRERY_TRY(step.regex, Regex::compile(step.spec.pattern));
      }
    }
    pre.steps_.push_back(std::move(step));
  }
  return pre;
}

void PreTokenizer::run(std::string& text, bool is_first, std::vector<Span>& words) const {
  words.clear();
  if (!text.empty()) words.push_back({0, text.size()});
  std::vector<Span> next;
  for (const Step& step : steps_) {
    const Kind kind = step.spec.kind;
    if (kind == Kind::byte_level_space) {
      add_byte_level_space(text, words);
      continue;
    }
    if (kind == Kind::metaspace) escape_metaspace(step.spec, text, is_first, words);
    if (kind == Kind::metaspace && !step.spec.split) continue;
    next.clear();
    for (const Span piece : words) {
      if (step.scanner) {
        const std::string_view subject = std::string_view(text).substr(0, piece.end);
        for (std::size_t at = piece.start; at < piece.end;) {
          const std::size_t end = scan_word(*step.scanner, subject, at);
          next.push_back({at, end});
          at = end;
        }
        continue;
      }
      std::vector<Part> parts;
      switch (kind) {
        case Kind::regex:
          parts = cut_by_regex(*step.regex, text, piece);
          break;
        case Kind::literal:
          parts = cut_by_literal(step.spec.pattern, text, piece);
          break;
        case Kind::digits:
          parts = cut_by_class(is_number, text, piece);
          break;
        case Kind::punctuation:
          parts = cut_by_class(is_bert_punctuation, text, piece);
          break;
        case Kind::white_space:
          parts = cut_by_class(is_white_space, text, piece);
          break;
        case Kind::new_line_runs:
          parts = cut_by_lines(text, piece);
          break;
        case Kind::metaspace:
          parts = cut_by_literal(kMetaspace, text, piece);
          break;
        case Kind::byte_level_space:
          break;
      }
      if (step.spec.invert) {
        for (Part& part : parts) part.is_match = !part.is_match;
      }
      const bool is_meta = kind == Kind::metaspace;
      apply_behavior(is_meta ? SplitBehavior::merged_with_next : step.spec.behavior, parts, next);
    }
    words.swap(next);
  }
}

}  // namespace orrery::text

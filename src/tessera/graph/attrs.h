// Attrs: the constant arguments of a node (an epsilon, a head count), typed by its op.
//
// An op declares a plain struct with a describe() that lists its fields; the graph holds it erased.
// The text made from describe() is what dumps print and what equality and the plan's hash compare.
//
//   struct RmsNormAttrs {
//     double eps = 1e-5;
//     void describe(AttrWriter& write) const { write("eps", eps); }
//   };
#pragma once

#include <fmt/format.h>

#include <memory>
#include <string>
#include <string_view>
#include <typeinfo>

#include "tessera/base/error.h"

namespace tessera {

class AttrWriter {
 public:
  template <class T>
  void operator()(std::string_view name, const T& value) {
    if (!text_.empty()) text_ += ' ';
    text_ += fmt::format("{}={}", name, value);
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

class Attrs {
 public:
  Attrs() = default;

  template <class T>
  requires requires(const T& t, AttrWriter& w) { t.describe(w); }
  Attrs(const T& value) : data_(std::make_shared<T>(value)), type_(&typeid(T)) {
    AttrWriter writer;
    value.describe(writer);
    text_ = writer.text();
  }

  template <class T>
  const T& as() const {
    TS_ASSERT(type_ != nullptr && *type_ == typeid(T));
    return *static_cast<const T*>(data_.get());
  }

  const std::string& text() const { return text_; }

 private:
  std::shared_ptr<const void> data_;
  const std::type_info* type_ = nullptr;
  std::string text_;
};

}  // namespace tessera

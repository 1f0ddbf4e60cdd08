#include "traced_model.h"

#include <memory>
#include <stdexcept>

#include <c10/util/Exception.h>

#include "commands.h"

namespace retrace::cli {

TracedModel traced_model(const std::string& name, models::Size size, const models::Extents& extents) {
  const auto model = [&] {
    try {
      return std::make_shared<const models::Model>(models::make_model(name, size, extents));
    } catch (const std::invalid_argument& error) {
      const std::string what = error.what();
      throw BadInput("[trace] " + name + ": " + what.substr(what.find("] ") + 2) + " Nothing was run.");
    }
  }();
  TracedModel traced;
  traced.name = name;
  traced.parameters = model->parameters;
  for (size_t i = 0; i < model->parameters.size(); ++i)
    traced.names.add(model->parameters[i], model->parameter_names[i]);
  traced.loss = [model] { return model->loss(); };
  return traced;
}

std::string first_line(const std::exception& error) {
  const auto* const torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text = torch != nullptr ? torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

}  // namespace retrace::cli

// Views that were made without grad of a tensor with grad.
//
// LibTorch believes that such a view requires grad, but gives it no grad accumulator. When the view is saved through
// any hook, backward fails (saved_variable.cpp, "No grad accumulator for a saved leaf"). So autograd must save it
// without us. Its engine does not say what it is about to save; while such a view lives, we look at what each operator
// is given.
#pragma once

#include <ATen/core/Tensor.h>

namespace retrace {

// Whether it is one. A view that a Function has returned has a history, and is like any other.
bool is_no_grad_view(const at::Tensor& tensor);

// Views of `inputs` were made in this thread's scope: notes them if they are such.
void note_no_grad_views(at::ArrayRef<at::Tensor> inputs, at::ArrayRef<at::Tensor> views);
void forget_no_grad_views();  // the scope has ended

// What autograd saves now on this thread may be one.
bool may_save_no_grad_view();

}  // namespace retrace

#include "text/jinja_content.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace tandem::text::jinja {
namespace {

using Names = std::set<NameId>;

// The value below filters, tests and slices, which do not change what is gone through.
const Expr* Inner(const Expr* expr) {
  while (expr != nullptr && (expr->kind == Expr::Kind::kFilter || expr->kind == Expr::Kind::kTest ||
                             expr->kind == Expr::Kind::kSlice))
    expr = expr->parts.empty() ? nullptr : expr->parts[0].get();
  return expr;
}

bool IsName(const Expr* expr, const Names& names) {
  return expr != nullptr && expr->kind == Expr::Kind::kName && names.contains(expr->name);
}

bool IsContentOf(const Expr* expr, const Names& items) {
  if (expr == nullptr || expr->parts.empty() || !IsName(expr->parts[0].get(), items)) return false;
  if (expr->kind == Expr::Kind::kAttr) return expr->text == "content";
  if (expr->kind != Expr::Kind::kItem || expr->parts.size() < 2) return false;
  const Expr* key = expr->parts[1].get();
  return key != nullptr && key->kind == Expr::Kind::kConst && key->value.IsString() &&
         key->value.AsString() == "content";
}

// All loops and assignments of a template, wherever they stand.
class Collector {
 public:
  void Visit(const std::vector<StmtPtr>& statements) {
    for (const StmtPtr& statement : statements) {
      if (statement == nullptr) continue;
      if (statement->kind == Stmt::Kind::kFor) loops.push_back(statement.get());
      if (statement->kind == Stmt::Kind::kSet) sets.push_back(statement.get());
      Visit(statement->body);
      Visit(statement->other);
      Visit(statement->branches);
    }
  }
  std::vector<const Stmt*> loops;
  std::vector<const Stmt*> sets;
};

Names NamesCalled(const Program& program, std::string_view name) {
  Names found;
  for (size_t i = 0; i < program.names.size(); ++i)
    if (program.names[i] == name) found.insert(static_cast<NameId>(i));
  return found;
}

// `messages` and the variables set from it, directly or by way of others.
Names NamesOfMessages(const Program& program, const Collector& all) {
  Names names = NamesCalled(program, "messages");
  for (bool grown = true; grown;) {
    grown = false;
    for (const Stmt* set : all.sets)
      if (set->target.kind == Target::Kind::kName && IsName(Inner(set->expr.get()), names))
        grown |= names.insert(set->target.name).second;
  }
  return names;
}

}  // namespace

bool LoopsOverContent(const Program& program) {
  Collector all;
  all.Visit(program.body);
  const Names messages = NamesOfMessages(program, all);
  Names items;
  for (const Stmt* loop : all.loops)
    if (loop->target.kind == Target::Kind::kName && IsName(Inner(loop->expr.get()), messages))
      items.insert(loop->target.name);
  const Names content = NamesCalled(program, "content");
  return std::any_of(all.loops.begin(), all.loops.end(), [&](const Stmt* loop) {
    return loop->target.kind == Target::Kind::kName &&
           (IsContentOf(Inner(loop->expr.get()), items) || IsName(loop->expr.get(), content));
  });
}

}  // namespace tandem::text::jinja

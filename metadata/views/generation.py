"""Generate targets from a source: shown first, done when a person says yes to exactly that."""

from uuid import UUID

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from elevata.core.errors import MetadataError, as_sentence
from metadata.domain.roles import Permission
from metadata.models import SourceDataset
from metadata.permissions import permitted
from metadata.services.generation_preview import GenerationPreview, generate_accepted, preview_generation

REFUSED, STALE = 422, 409


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@permitted(Permission.CHANGE_METADATA)
def source_generate(request: HttpRequest, key: UUID) -> HttpResponse:
    """Preview the generation of a source's targets, and generate them."""
    source = get_object_or_404(SourceDataset.objects.select_related("system"), key=key)
    if request.method != "POST":
        return _page(request, source, set())
    accept = _keys(request.POST.getlist("accept"))
    try:
        done = generate_accepted(source_dataset=source, fingerprint=request.POST.get("fingerprint", ""), accept=accept)
    except MetadataError as problem:
        status = STALE if problem.code == "preview_changed" else REFUSED
        return _page(request, source, accept, said=as_sentence(problem.one_line()), status=status)
    messages.success(request, _done(done, accept))
    return redirect("source_page", key)


def _page(
    request: HttpRequest, source: SourceDataset, accept: set[UUID], *, said: str = "", status: int = 200
) -> HttpResponse:
    """The preview; where generation itself is refused, the reason."""
    context = {"source": source, "accept": accept, "said": said, "stale": status == STALE}
    try:
        preview = preview_generation(source)
    except MetadataError as problem:
        context |= {"refused": as_sentence(problem.one_line()), "code": problem.code}
    else:
        context |= {"preview": preview}
    return render(request, "metadata/source_generate.html", context, status=status)


def _keys(texts: list[str]) -> set[UUID]:
    """The keys among what was sent; what is none is none of ours."""
    found = set()
    for text in texts:
        try:
            found.add(UUID(text))
        except ValueError:
            continue
    return found


def _done(preview: GenerationPreview, accept: set[UUID]) -> str:
    counts = [
        (sum(one.status == "new" for one in preview.datasets), "new"),
        (sum(one.status in ("changes", "returns", "retires") for one in preview.datasets), "changed"),
        (sum(one.key in accept and bool(one.differences) for one in preview.datasets), "set to what the source says"),
    ]
    said = ", ".join(f"{count} {what}" for count, what in counts if count)
    if not said:
        return "Everything was generated already: nothing was changed."
    return f"Generated: {said}. Tables change when a change report is carried out."

"""Collections with their documents; uploading, indexing again, and the jobs that do it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, File, Path, Query, Response, UploadFile

from server.api.dependencies import CollectionFilter, CollectionName, Listing, Service
from server.chat import CollectionSummary, DocumentText, Job
from server.chat.documents import LEAST_WIDTH, MOST_WIDTH, DocumentSummary, PassagePage

router = APIRouter(tags=["Documents"])
jobs_router = APIRouter(tags=["Jobs"])

JobId = Annotated[str, Path(description="The job's id.")]
DocumentId = Annotated[str, Path(description="The document's id; it may contain slashes.")]


@router.get("/v1/collections", summary="List collections")
async def list_collections(service: Service) -> Listing[CollectionSummary]:
    """Every collection, with the job that is changing it."""
    return Listing[CollectionSummary](data=await service.collections.listing())


@router.delete("/v1/collections/{collection}", status_code=204, summary="Delete a collection")
async def delete_collection(collection: CollectionName, service: Service) -> None:
    """Delete it with its uploads; folders it was made from are left alone."""
    await service.collections.delete(collection)


@router.post("/v1/collections/{collection}/reindex", status_code=202, summary="Index a collection again")
async def reindex(collection: CollectionName, service: Service) -> Job:
    """Look at its folders and uploads again; only what changed is embedded again."""
    return await service.collections.reindex(collection)


@router.get("/v1/collections/{collection}/documents", summary="List documents")
async def list_documents(collection: CollectionName, service: Service) -> Listing[DocumentSummary]:
    """Every document of the collection."""
    return Listing[DocumentSummary](data=await service.collections.documents(collection))


@router.post("/v1/collections/{collection}/documents", status_code=202, summary="Upload a document")
async def upload_document(
    collection: CollectionName,
    file: Annotated[UploadFile, File(description="The document, or a zip archive of documents.")],
    service: Service,
) -> Job:
    """Keep a file and index it in the background; a file of the same name is replaced.

    Of a zip archive the documents and pictures are kept, as `uploads/ARCHIVE/PATH`; they replace all that came with an
    earlier one of that name.
    """
    return await service.collections.upload(collection, file.filename or "", file.file)


@router.get(
    "/v1/collections/{collection}/images/{document_id:path}",
    response_class=Response,
    responses={200: {"content": {"image/*": {}}, "description": "The image: PNG, JPEG, GIF or WebP."}},
    summary="Show an image or a page",
)
async def document_image(
    collection: CollectionName,
    document_id: DocumentId,
    service: Service,
    name: Annotated[str, Query(max_length=1000, description="The image as the document names it.")] = "",
    page: Annotated[
        int | None, Query(ge=1, le=10_000, description="In place of an image a page of a PDF, from 1.")
    ] = None,
    width: Annotated[
        int, Query(ge=LEAST_WIDTH, le=MOST_WIDTH, description="How wide the page is drawn, in pixels.")
    ] = 1000,
) -> Response:
    """An image that a document shows, where it lies below the indexed folder, or a page of a PDF as PNG.

    `boxes` of evidence count the page's points from the top left corner.
    """
    headers = {"Cache-Control": "private, no-cache"}
    if page is None:
        image = await service.collections.document_image(collection, document_id, name)
        return Response(image.data, media_type=image.media_type, headers=headers)
    picture = await service.collections.page_picture(collection, document_id, page, width)
    headers |= {"X-Page-Width": f"{picture.width:g}", "X-Page-Height": f"{picture.height:g}"}
    return Response(picture.png, media_type="image/png", headers=headers)


@router.get("/v1/collections/{collection}/passages/{document_id:path}", summary="List passages")
async def list_passages(
    collection: CollectionName,
    document_id: DocumentId,
    service: Service,
    offset: Annotated[int, Query(ge=0, le=10**7, description="So many passages are left out.")] = 0,
    limit: Annotated[int, Query(ge=1, le=200)] = 50,
) -> PassagePage:
    """List the passages of a document, in its order."""
    return await service.collections.passages(collection, document_id, offset=offset, limit=limit)


@router.get("/v1/collections/{collection}/documents/{document_id:path}", summary="Read a document")
async def read_document(collection: CollectionName, document_id: DocumentId, service: Service) -> DocumentText:
    """The text that citations' offsets count in, with its sections."""
    return await service.collections.document(collection, document_id)


@router.delete(
    "/v1/collections/{collection}/documents/{document_id:path}",
    status_code=202,
    summary="Remove an upload",
)
async def delete_document(collection: CollectionName, document_id: DocumentId, service: Service) -> Job:
    """Take an uploaded document out of the collection and off the disk, in the background."""
    return await service.collections.delete_document(collection, document_id)


@jobs_router.get("/v1/jobs", summary="List jobs")
async def list_jobs(service: Service, collection: CollectionFilter = "") -> Listing[Job]:
    """Newest first, those of earlier runs of the server too."""
    return Listing(data=await service.admin.jobs(collection or None))


@jobs_router.get("/v1/jobs/{job_id}", summary="Watch a job")
async def show_job(job_id: JobId, service: Service) -> Job:
    """How the job stands now."""
    return await service.admin.job(job_id)


@jobs_router.post("/v1/jobs/{job_id}/cancel", status_code=202, summary="Cancel a job")
async def cancel_job(job_id: JobId, service: Service) -> Job:
    """Ask the job to stop; the collection stays as it was before it."""
    return await service.admin.cancel_job(job_id)

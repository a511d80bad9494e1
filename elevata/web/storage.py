"""Storage of collected static files."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Hashed and compressed static files; the imports of ES modules name the hashed files.

    Only in ``static/js``: scripts of packages mention imports in comments, of files that they do not ship.
    """

    support_js_module_import_aggregation = True
    _js_module_import_aggregation_patterns = (
        "js/*.js",
        CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1],
    )

"""Storage of collected static files."""

from whitenoise.storage import CompressedManifestStaticFilesStorage


class ModuleStaticFilesStorage(CompressedManifestStaticFilesStorage):
    """Storage of hashed and compressed static files, with hashed file names in the imports of ES modules.

    Imports are replaced in ``static/js`` and in the modules of the SQL editor only, because scripts of other packages
    have imports in comments, of files that the packages do not include.
    """

    support_js_module_import_aggregation = True
    _imports = CompressedManifestStaticFilesStorage._js_module_import_aggregation_patterns[1]
    _js_module_import_aggregation_patterns = ("js/*.js", _imports)
    patterns = (*CompressedManifestStaticFilesStorage.patterns, ("vendor/codemirror/*.js", _imports))

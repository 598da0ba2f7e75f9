SELECT NULL AS job, NULL AS ix, NULL AS other, quick_check AS what FROM pragma_quick_check WHERE quick_check <> 'ok'

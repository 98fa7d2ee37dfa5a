"""The page, tables and figures of `rela reproduce`, in the paper's form, the paper's numbers beside ours."""

"""The formulas, one file per operator family. Importing this package registers them all."""

from roofline.work.formulas import (
    attention as attention,
)
from roofline.work.formulas import (
    conv as conv,
)
from roofline.work.formulas import (
    elementwise as elementwise,
)
from roofline.work.formulas import (
    indexing as indexing,
)
from roofline.work.formulas import (
    matmul as matmul,
)
from roofline.work.formulas import (
    quantised as quantised,
)
from roofline.work.formulas import (
    recurrent as recurrent,
)
from roofline.work.formulas import (
    sparse as sparse,
)

import gc
import importlib
import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "benchapp.settings")
application = get_wsgi_application()
importlib.import_module(settings.ROOT_URLCONF)  # here and not at the first request, whose sender would wait for it

# What is loaded now stays for as long as the process: no collection of garbage need walk through it again, which took
# more than a tenth of a second in one request of ten.
gc.collect()
gc.freeze()

# A page makes some ten thousand objects and drops them by itself. Looking for cycles after every 700 took a tenth of its time.
gc.set_threshold(50_000, 20, 20)

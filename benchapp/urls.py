from django.urls import include, path

handler403 = "inspector.web.access.deny"
handler500 = "inspector.web.failure_page.broken"

urlpatterns = [path("", include("inspector.urls"))]

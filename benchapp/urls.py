from django.urls import include, path

handler403 = "inspector.web.access.denied"
handler500 = "inspector.web.failure_page.broken"

urlpatterns = [path("", include("inspector.urls"))]
